"""Prepares the process of a game server, and then replaces itself with the server's program.

It creates its own process group. It keeps the read ends of its output pipes open in itself, so
that output does not end the game server while the deploy server is down after a crash. The next
deploy server continues to read (``process.py``). Descriptor 3 is a pipe that a successful exec
closes; a failed exec writes its error number there.

    python -I -S child_setup.py PROGRAM ARGUMENT...

It imports little, because every launch waits for it.
"""

import os
import sys

RESULT = 3
FAILED = 126  # the status a shell uses


def main() -> None:
    """Prepare this process and exec the program."""
    os.setsid()
    if sys.platform == "linux":
        for output in (1, 2):
            reading = os.open(f"/proc/self/fd/{output}", os.O_RDONLY | os.O_NONBLOCK)
            os.set_inheritable(reading, True)
    os.set_inheritable(RESULT, False)
    try:
        os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - an argument list, no shell
    except OSError as error:
        os.write(RESULT, str(error.errno).encode())
        os._exit(FAILED)


if __name__ == "__main__":
    main()
