"""Tests of Entitlements."""
