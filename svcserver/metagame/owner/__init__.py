"""What the owner of the host sees and does: management, dashboard, health, status."""
