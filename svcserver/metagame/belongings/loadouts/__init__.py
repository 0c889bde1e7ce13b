"""The loadouts of characters (sets of weapons and armour), and their history."""
