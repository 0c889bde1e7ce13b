"""A player's own data on this host: shown, or exported as a signed passport for other hosts."""
