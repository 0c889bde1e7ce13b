"""Achievements: progression, entitlements, bounties, escalation and others."""
