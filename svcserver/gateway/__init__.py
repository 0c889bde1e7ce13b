"""The single public HTTPS entry."""
