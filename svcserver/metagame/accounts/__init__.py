"""Accounts: registration, log-in, keys, names and the audit log."""
