"""The deploy server, which starts, watches and lists game-server processes."""
