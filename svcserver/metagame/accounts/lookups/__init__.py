"""The client's look-ups of accounts by name and id."""
