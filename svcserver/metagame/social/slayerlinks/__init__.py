"""Slayer links: invites and slots between friends."""
