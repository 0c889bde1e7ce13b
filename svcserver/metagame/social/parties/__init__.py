"""Parties: who plays together right now. On the board."""
