"""Loadout slots, the persistent part, and their history."""
