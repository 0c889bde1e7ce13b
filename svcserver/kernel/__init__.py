"""The base that every package uses: refusals, settings, secrets, ids, rates, signals."""
