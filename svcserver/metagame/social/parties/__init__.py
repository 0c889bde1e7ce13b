"""Parties: who plays together right now."""
