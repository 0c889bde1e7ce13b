"""Tests of Bounties."""
