"""A player's data on this host: shown, and signed for other hosts that trust this one."""
