"""Objectives, and the progression tracks with their ranks and rewards. Spec: 1 §4 Progression."""
