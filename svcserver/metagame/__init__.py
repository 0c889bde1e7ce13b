"""The game's main backend: all client routes except chat and file downloads.

``Spec: 1 §4 Parties`` in a docstring means part 1, section 4, "Parties" of
docs/contributors/specification.md. A ``feature.py`` contains one feature: its data shapes (the
typed requests and replies), transactions, tables and routes.
"""
