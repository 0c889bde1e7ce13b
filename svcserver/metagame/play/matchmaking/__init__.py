"""Matchmaking: from a player's request for a hunt to the address of a game server."""
