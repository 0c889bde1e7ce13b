"""The progression tracks with their ranks and rewards, and objectives. Spec: 1 §4 Progression."""
