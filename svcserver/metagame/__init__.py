"""The game's main backend: every route of the client but chat frames and files."""
