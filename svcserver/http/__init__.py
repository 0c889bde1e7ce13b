"""The HTTP/1.1 parser and connection that all our services share."""
