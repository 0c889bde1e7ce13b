"""The bounty board of an account. Spec: 1 §4 Progression."""
