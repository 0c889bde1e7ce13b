"""Access control for every route, and the tokens that it verifies."""
