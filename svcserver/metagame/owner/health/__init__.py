"""How busy the server is at the moment, for the owner."""
