"""Looking after people: bans, mutes, kicks, roles, and the audit log of all that staff does."""
