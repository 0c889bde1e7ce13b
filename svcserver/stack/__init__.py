"""One process per component from one configuration directory."""
