"""The inventory of a character: stacks and single items, changed only by transactions."""
