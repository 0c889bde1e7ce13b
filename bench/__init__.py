"""Benchmarks: each reports ratios to baselines that are built and measured in the same run."""
