"""The game's main backend."""
