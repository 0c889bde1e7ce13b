"""The player's program: joins hosts, keeps the game's files, starts the game."""
