"""The relay on each player's PC, which turns the game's plain HTTP into pinned TLS."""
