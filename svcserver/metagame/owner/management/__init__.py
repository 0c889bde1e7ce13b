"""The server status: who is where, for launchers and host scripts."""
