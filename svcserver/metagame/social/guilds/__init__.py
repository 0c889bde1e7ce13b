"""Guilds: names, members, ranks, invites."""
