"""Friendships and blocks between accounts."""
