"""Slayer links: each link connects two friends for some days and takes one slot of each friend."""
