"""What a character holds: stacks and single items, changed only by transactions."""
