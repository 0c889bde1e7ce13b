"""svcctl: the owner's command line."""
