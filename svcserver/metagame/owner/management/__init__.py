"""Whether the server is up and who is where, for launchers and host scripts."""
