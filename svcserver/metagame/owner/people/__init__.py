"""What staff sees of accounts: lists of them, and one with all that is known of it."""
