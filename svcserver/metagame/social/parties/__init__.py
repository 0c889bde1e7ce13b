"""Parties: groups of up to four players who currently play together."""
