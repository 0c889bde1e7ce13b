"""Tests of the metrics history, which covers weeks."""
