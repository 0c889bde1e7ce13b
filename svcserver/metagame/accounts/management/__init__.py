"""The owner's and the launcher's side: registration, names, tokens."""
