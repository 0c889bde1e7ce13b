"""Entitlements: rights of an account, for a number of hours or forever. Spec: 1 §4 Progression."""
