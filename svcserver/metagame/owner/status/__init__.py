"""The banner that the client shows of the server, and replies that are always the same."""
