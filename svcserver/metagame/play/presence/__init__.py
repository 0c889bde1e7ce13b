"""Online players and the places where they are."""
