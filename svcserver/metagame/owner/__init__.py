"""The owner's side of the host: dashboard, management, health and status."""
