"""Tests of Encountered content."""
