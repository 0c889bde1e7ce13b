"""From a wish to hunt to a game server's address."""
