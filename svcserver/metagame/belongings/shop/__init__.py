"""The store, in which every offer is free, and the tokens with which players redeem offers."""
