"""Simulated players: what the game's client sends, for every program that plays."""
