"""The ``svcctl`` command line, with which owners manage their hosts."""
