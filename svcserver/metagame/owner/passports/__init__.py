"""My hunter, and the passport: what a player has here, signed, for a host that trusts this one."""
