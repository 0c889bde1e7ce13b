"""Who may call: the gate in front of every row, and the tokens it verifies."""
