"""The backend services of an online co-op monster-hunting game."""
