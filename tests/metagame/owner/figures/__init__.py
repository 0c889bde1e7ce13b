"""Weeks of figures."""
