"""What a player has on this host: to look at, and signed, for another host that trusts this one."""
