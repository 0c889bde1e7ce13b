"""The store, where every offer is free: its offers, and the tokens that redeem an offer."""
