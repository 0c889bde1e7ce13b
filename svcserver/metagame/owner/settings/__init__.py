"""The settings page: all settings of the host, and changes of some at run time."""
