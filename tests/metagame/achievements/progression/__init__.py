"""Tests of Progression."""
