"""The loadouts (sets of weapons and armour) of characters, and the history of loadouts."""
