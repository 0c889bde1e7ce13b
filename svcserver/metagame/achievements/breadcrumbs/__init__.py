"""Breadcrumbs: the client's markers for new menu entries, stored unchanged.

Spec: 1 §4 Progression.
"""
