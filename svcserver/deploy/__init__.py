"""Starts, watches and lists game-server processes."""
