"""The owner's dashboard at /svc/dashboard, and the admin routes that only the dashboard uses."""
