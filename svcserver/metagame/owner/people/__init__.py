"""What staff sees of people: lists of accounts in any order, and one account whole."""
