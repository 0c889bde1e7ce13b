"""Tests of cooldowns."""
