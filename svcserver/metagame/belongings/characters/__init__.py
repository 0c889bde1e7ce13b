"""Characters: versioned documents, every save of them kept."""
