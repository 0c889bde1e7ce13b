"""Prepares the process of a component, then replaces itself by ``twistd`` (exec).

On Linux it asks the kernel to end this process with the stack: a stack that is killed by
SIGKILL must not leave children behind that hold its ports.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Replace this process by ``twistd --nodaemon --pidfile= ARGUMENTS``."""
    os.setsid()  # Ctrl-C is for the stack, which stops its children in order
    end_with_parent()
    twistd = Path(sys.executable).with_name("twistd")
    os.execv(  # noqa: S606 - an argument list, no shell
        sys.executable,
        [sys.executable, str(twistd), "--nodaemon", "--pidfile=", *sys.argv[1:]],
    )


def end_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies; does nothing on other systems."""
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked
        sys.exit(1)


if __name__ == "__main__":
    main()
