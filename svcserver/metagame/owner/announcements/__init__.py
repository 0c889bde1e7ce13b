"""Announcements and planned restarts, shown in the status banner and in chat rooms."""
