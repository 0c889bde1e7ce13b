"""The modules that all packages use, such as those for settings, secrets, refusals and signals."""
