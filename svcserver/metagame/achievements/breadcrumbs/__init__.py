"""Breadcrumbs: markers of new entries in the client's menus, stored as the client sends them.

Spec: 1 §4 Progression.
"""
