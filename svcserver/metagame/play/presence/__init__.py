"""Online players and their current places in the game."""
