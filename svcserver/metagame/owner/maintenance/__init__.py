"""Maintenance mode: no new hunts, and what is done once the server is empty."""
