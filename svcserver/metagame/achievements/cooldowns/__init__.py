"""Cooldowns: the last start of each rare activity of an account. Spec: 1 §4 Progression."""
