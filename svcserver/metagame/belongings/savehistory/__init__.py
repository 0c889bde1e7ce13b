"""The save history of characters and loadouts: the list of older saves, and rollback."""
