"""Tests of bounties."""
