"""Simulated game clients that play a scripted session, and independent checks of the results."""
