"""Tests of escalation."""
