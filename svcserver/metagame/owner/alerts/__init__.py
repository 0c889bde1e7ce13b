"""Who is told when something is wrong, as the owner's page shows it, and a test of each."""
