"""Breadcrumbs: marks of new things in the client's menus, stored as the client sends them.

Spec: 1 §4 Progression.
"""
