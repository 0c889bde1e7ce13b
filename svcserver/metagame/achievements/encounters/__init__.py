"""Which content of the game a character has met. Spec: 1 §4 Progression."""
