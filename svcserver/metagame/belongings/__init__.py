"""The belongings of players: characters, inventory, currency, shop, loadouts, save history."""
