"""What a player owns: characters, inventory, currency, shop, loadouts and their history."""
