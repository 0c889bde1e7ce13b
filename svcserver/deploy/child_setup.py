"""Prepares the process of a game server, then replaces itself by the server's program (exec).

It makes a process group of its own and asks the kernel to kill it when the deploy server
dies (PDEATHSIG), so that even a ``kill -9`` leaves no orphan.

    python -I -S child_setup.py PROGRAM ARGUMENT...

It imports little, since every launch waits for it.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Prepare this process and exec the program."""
    parent = os.getppid()
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before prctl took effect
            os.kill(os.getpid(), signal.SIGKILL)
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - an argument list, no shell


if __name__ == "__main__":
    main()
