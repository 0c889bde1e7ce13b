"""How busy the metagame is: figures for the owner, kept only in memory."""
