"""On each player's PC: plain HTTP from the game to pinned TLS."""
