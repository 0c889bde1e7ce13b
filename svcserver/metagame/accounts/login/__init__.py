"""Logging in, and what the client's online library asks around it."""
