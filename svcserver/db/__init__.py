"""The cellar: one way in to the database."""
