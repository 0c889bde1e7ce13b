"""svcctl, the owner's command line: it asks the other rooms, and decides nothing."""
