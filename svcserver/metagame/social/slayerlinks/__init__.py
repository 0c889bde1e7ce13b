"""Slayer links: each connects two friends for some days and takes a slot from both."""
