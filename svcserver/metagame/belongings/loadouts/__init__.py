"""Loadouts: a character's sets of weapons and armour, and their history."""
