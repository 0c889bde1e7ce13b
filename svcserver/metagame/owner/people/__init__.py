"""The accounts as staff see them: lists, and everything about one account."""
