"""Tests of Cooldowns."""
