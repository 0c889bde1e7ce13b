"""``svcctl backup``: the whole host in one file, kept for a year, and proven by playing on it."""
