"""Cooldowns: when an account last started each rare activity. Spec: 1 §4 Progression."""
