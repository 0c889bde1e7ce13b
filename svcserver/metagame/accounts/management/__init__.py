"""Registration, names and tokens for the owner and the launcher."""
