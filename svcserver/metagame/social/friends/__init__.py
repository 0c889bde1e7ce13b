"""Friends and blocks between accounts."""
