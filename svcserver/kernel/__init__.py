"""Words every room uses: refusals, settings, secrets, ids, rates, signals. Pure."""
