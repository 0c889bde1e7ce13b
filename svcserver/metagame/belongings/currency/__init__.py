"""The balances of an account in each currency."""
