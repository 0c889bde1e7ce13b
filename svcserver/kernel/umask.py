"""The umask of our programs, whatever umask a shell or service manager has set."""

import os

OTHERS_WRITE = 0o022


def let_nobody_else_write() -> None:
    """Make sure that only our user can write to new files and folders.

    If the umask is stricter already, it is kept. Otherwise, other users can read new files.
    """
    os.umask(os.umask(0o077) | OTHERS_WRITE)
