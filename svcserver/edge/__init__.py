"""The strict HTTP/1.1 proxy core that gateway and relay share."""
