"""What every package uses: refusals, settings, secrets, ids, rates, signals. Pure."""
