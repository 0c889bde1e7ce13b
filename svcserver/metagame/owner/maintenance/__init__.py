"""Maintenance mode: no new hunts; optionally, a stop or restart as soon as the server is empty."""
