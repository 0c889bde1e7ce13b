"""Access control for every route, and the signing and checking of player tokens."""
