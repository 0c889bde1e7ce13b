"""The command ``svcctl backup``: backups of the whole host, each tested by a restore."""
