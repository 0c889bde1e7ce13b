"""How the metagame feels: figures for the owner, kept only in memory."""
