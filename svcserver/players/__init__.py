"""The requests and messages of the game's client, for all programs that simulate players."""
