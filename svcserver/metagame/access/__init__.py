"""The gate in front of every row, and the tokens it verifies."""
