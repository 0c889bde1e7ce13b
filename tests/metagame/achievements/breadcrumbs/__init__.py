"""Tests of breadcrumbs."""
