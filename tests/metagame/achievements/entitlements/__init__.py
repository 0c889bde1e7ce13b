"""Tests of entitlements."""
