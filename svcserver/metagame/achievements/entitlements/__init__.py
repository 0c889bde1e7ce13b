"""Entitlements: rights of an account, for hours or for ever. Spec: 1 §4 Progression."""
