"""Accounts: who a player is, how they register and log in."""
