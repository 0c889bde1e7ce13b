"""Moderation: bans, mutes, kicks, roles, and the audit log."""
