"""Parties: the groups of players who play together now."""
