"""Brings a real fault about on a throw-away host, shows what it looks like, and cures it."""
