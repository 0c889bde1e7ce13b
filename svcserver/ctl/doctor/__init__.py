"""The command ``svcctl doctor``: finds problems of a host and says how to fix them."""
