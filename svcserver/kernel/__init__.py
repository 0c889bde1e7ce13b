"""The modules that every package uses, for example for refusals, settings, secrets and signals."""
