"""What the server has counted, over minutes, hours, days and weeks."""
