"""Matchmaking: from the wish to hunt to the address of a game server."""
