"""The server's load figures over minutes, hours, days and weeks."""
