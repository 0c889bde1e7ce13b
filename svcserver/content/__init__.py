"""The content server: verified game files, branding and news for launchers."""
