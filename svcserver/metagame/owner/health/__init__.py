"""The current load of the server, for the owner."""
