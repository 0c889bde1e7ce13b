"""Storage: one way in to the database."""
