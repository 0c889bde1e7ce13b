"""Slayer links between two friends, for some days, in one slot of each."""
