"""A whole host in one Python process, run from one seed: see docs/contributors/simulation.md."""
