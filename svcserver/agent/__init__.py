"""The agent on each node of a fleet, which connects the node's game servers to their host."""
