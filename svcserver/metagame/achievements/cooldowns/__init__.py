"""Cooldowns, which record when an account last started a rare activity. Spec: 1 §4 Progression."""
