"""The belongings of a player: characters, inventory, currency, shop, loadouts, save history."""
