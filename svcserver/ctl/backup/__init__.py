"""The command ``svcctl backup``, which makes backups of the whole host, and tests them."""
