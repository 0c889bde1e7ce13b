"""Maintenance mode: no new hunts, and an optional stop or restart once the server is empty."""
