"""Players together: parties, friends, guilds and slayer links."""
