"""Keeps the host firewall rule that opens the UDP game ports."""
