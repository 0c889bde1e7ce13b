"""Each way of installing, on a system that has nothing of ours, up to a played evening."""
