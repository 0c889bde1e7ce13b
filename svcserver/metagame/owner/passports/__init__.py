"""A player's data on this host: display, and export (signed) for hosts that trust this one."""
