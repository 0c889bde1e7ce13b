"""The owner's page at /svc/dashboard, and the admin routes made for it."""
