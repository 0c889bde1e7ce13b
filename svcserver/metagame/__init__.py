"""The game's main backend: all client routes except chat and file downloads."""
