"""Measurements: ratios against yardsticks built and measured in the same run."""
