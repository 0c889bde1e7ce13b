"""Invite codes, for the owner."""
