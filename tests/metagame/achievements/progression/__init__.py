"""Tests of progression."""
