"""A whole host in one Python process, simulated from one seed: docs/contributors/simulation.md."""
