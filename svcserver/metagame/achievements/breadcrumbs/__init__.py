"""Breadcrumbs: a list for each character, kept as the client sends it. Spec: 1 §4 Progression."""
