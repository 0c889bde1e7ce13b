"""The game content that a character has encountered. Spec: 1 §4 Progression."""
