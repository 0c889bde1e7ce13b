"""Live state: data that several processes may share and that a restart may discard."""
