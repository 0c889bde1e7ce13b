"""Announcements: a text, and when the server restarts, in the status banner and in chat rooms."""
