"""Online players, and the game servers that they are sent to."""
