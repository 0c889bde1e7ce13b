"""Tells the owner what is wrong with the host, by webhook and mail."""
