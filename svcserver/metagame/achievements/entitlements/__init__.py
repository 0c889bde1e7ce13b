"""Entitlements: rights of an account, either for hours or forever. Spec: 1 §4 Progression."""
