"""Tests of Escalation."""
