"""Escalation: the level and talents of an account in a season. Spec: 1 §4 Progression."""
