"""Tests of Breadcrumbs."""
