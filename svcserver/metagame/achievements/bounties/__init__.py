"""An account's bounty board. Spec: 1 §4 Progression."""
