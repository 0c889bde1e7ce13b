"""The web framework of the services: routes, access control, connections, logs and metrics."""
