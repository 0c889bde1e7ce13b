"""Who is online, and where."""
