"""The umask of our programs, whatever a shell or a service manager has left them."""

from __future__ import annotations

import os

OTHERS_WRITE = 0o022


def let_nobody_else_write() -> None:
    """Make new files and folders writable by our user only; a stricter umask stays.

    Files with secrets have their own mode; this is for the rest.
    """
    os.umask(os.umask(0o077) | OTHERS_WRITE)
