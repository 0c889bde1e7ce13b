"""Benchmarks: each reports ratios to baselines that were built and measured in the same run."""
