"""Verified game files, branding and news."""
