"""Breadcrumbs: what is new to a character in the client's menus, kept as the client sends it.

Spec: 1 §4 Progression.
"""
