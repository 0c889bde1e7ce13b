"""A whole host in one Python process, from one seed: see docs/contributors/simulation.md."""
