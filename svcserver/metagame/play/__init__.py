"""Online players, and the game servers to which they are sent."""
