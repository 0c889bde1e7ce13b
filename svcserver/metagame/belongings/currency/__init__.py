"""What an account has of each currency."""
