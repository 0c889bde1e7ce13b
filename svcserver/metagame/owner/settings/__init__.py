"""The settings page: all settings of the host, some of which can be changed at run time."""
