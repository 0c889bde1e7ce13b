"""The list of currencies, laid over the stacks of the active character."""
