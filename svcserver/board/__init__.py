"""Live state that several processes may share: what is true now and is lost with a restart."""
