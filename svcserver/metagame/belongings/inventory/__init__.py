"""A character's inventory of stacks and single items; it changes only in transactions."""
