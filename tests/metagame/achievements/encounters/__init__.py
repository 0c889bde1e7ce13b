"""Tests of encountered content."""
