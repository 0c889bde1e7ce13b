"""Friends and blocks."""
