"""The umask of our programs, whatever a shell or a service manager has left them."""

from __future__ import annotations

import os

OTHERS_WRITE = 0o022


def let_nobody_else_write() -> None:
    """Make files and folders that only our user may change; a stricter umask stays.

    What holds secrets is made with a mode of its own all the same: this is for the rest.
    """
    os.umask(os.umask(0o077) | OTHERS_WRITE)
