"""Reading, thinning and rolling back the history of saves."""
