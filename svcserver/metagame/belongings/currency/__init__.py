"""The currency sheet, laid over the stacks of the active character."""
