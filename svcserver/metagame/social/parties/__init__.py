"""Parties: who plays together right now. In memory."""
