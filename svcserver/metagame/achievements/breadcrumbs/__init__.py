"""Breadcrumbs of a player. Spec: 1 §4 Progression."""
