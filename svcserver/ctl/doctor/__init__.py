"""``svcctl doctor``: finds what is wrong with a host, and how to cure it."""
