"""Cooldowns: the last start of each rare activity, per account. Spec: 1 §4 Progression."""
