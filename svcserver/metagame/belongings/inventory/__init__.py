"""A character's inventory of stacks and single items, which only transactions change."""
