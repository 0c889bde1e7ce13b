"""The owner's dashboard at /svc/dashboard and its own admin routes."""
