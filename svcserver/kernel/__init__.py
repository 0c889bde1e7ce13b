"""The base of every package: refusals, settings, secrets, ids, rates, signals. Pure."""
