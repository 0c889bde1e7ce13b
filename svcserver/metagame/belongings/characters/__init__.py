"""Characters: JSON documents with a version, of which older saves are kept."""
