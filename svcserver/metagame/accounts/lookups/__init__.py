"""Who is who, as the client asks it."""
