"""Who is online, and which game server they are placed on."""
