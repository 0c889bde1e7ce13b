"""Which account has which name and id, as the client asks it."""
