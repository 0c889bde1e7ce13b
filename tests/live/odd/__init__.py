"""Attacks of strangers and players on real services, from loopback sockets."""
