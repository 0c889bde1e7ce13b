"""The allowlist helper, which maintains the firewall rule that opens the UDP game ports."""
