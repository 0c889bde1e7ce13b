"""Live state: data that several processes can share, and that a restart can lose without harm."""
