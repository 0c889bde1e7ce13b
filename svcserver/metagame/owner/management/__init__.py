"""The server status and the list of online players, for launchers and host scripts."""
