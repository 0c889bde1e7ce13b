"""Slayer links: two friends linked for some days, each by one of their slots."""
