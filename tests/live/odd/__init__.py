"""Unusual conditions for real services: other users, broken parts and odd configurations."""
