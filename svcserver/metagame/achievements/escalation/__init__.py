"""Escalation: an account's level and talents in each season. Spec: 1 §4 Progression."""
