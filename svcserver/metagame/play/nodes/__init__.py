"""The listener for the machines of a fleet, which run game servers for this host."""
