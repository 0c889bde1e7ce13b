"""Invite codes, the owner's side."""
