"""Alerts that tell the owner by webhook and mail what is wrong with the host."""
