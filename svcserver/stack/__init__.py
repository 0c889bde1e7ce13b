"""svc-stack: runs a whole host from one folder, with one child process per component."""
