"""Loadouts: the sets of weapon and armour that a character keeps, and their history."""
