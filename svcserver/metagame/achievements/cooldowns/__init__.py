"""Cooldowns: when an account last began what it may not do often. Spec: 1 §4 Progression."""
