"""The one reading of HTTP/1.1 that everything of ours shares: heads, bodies, prompt writes."""
