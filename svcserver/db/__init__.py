"""Storage: all access to the database goes through this package."""
