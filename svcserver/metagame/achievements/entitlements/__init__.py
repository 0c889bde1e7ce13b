"""Entitlements: what an account may use, for hours or for ever. Spec: 1 §4 Progression."""
