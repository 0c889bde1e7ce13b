"""svc-stack: the whole host from one folder, one child process per component."""
