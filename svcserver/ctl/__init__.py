"""The ``svcctl`` command line for owners."""
