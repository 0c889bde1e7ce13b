"""The accounts as staff sees them: lists, and everything about one account."""
