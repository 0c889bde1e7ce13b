"""The content of the game that a character has met. Spec: 1 §4 Progression."""
