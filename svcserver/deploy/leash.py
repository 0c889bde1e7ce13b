"""Run before a game server's program, in the same process: leads it into its own process
group and ties its life to the deploy server's, so that a ``kill -9`` leaves no orphan.

    python -I -S leash.py PROGRAM ARGUMENT...

Kept free of imports that cost time; it becomes the program a few milliseconds later.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Become the program."""
    parent = os.getppid()
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before we were tied to it
            os.kill(os.getpid(), signal.SIGKILL)
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - an argument list, no shell


if __name__ == "__main__":
    main()
