"""The older saves of characters and loadouts: which there are, and back to one of them."""
