"""The social features: parties, friends, guilds and slayer links."""
