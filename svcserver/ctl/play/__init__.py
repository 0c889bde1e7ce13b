"""Simulated game clients that live a real evening, and checks that read for themselves."""
