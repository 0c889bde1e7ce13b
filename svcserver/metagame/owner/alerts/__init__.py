"""Alerts: who is told when something is wrong, and a test of each channel."""
