"""Characters: JSON documents with a version and a history of saves."""
