"""The server's figures over minutes, hours, days and weeks."""
