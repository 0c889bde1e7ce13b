"""A player's own data: shown to the player, or exported as a signed passport for other hosts."""
