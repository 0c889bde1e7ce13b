"""Storage: the only access to the database."""
