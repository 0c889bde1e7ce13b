"""Which kinds of content a character has met. Spec: 1 §4 Progression."""
