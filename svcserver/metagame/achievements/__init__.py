"""What a player has reached: progression, entitlements, bounties, escalation and the like."""
