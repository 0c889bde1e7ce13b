"""The routes with which the client looks up accounts by name and id."""
