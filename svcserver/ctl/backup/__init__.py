"""``svcctl backup``: backups of the whole host, each proven by a restore."""
