"""Weeks of figures: minutes, hours and days of what the metagame counted, in the database."""
