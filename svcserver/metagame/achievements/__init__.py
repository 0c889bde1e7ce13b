"""Achievements: progression, entitlements, bounties, escalation and related features."""
