"""The parser and connection of HTTP/1.1 that all our services share."""
