"""Prepares the process of a game server, then replaces itself by the server's program (exec).

It makes a process group of its own, and keeps the reading ends of the pipes for its output
open in itself: when the deploy server dies, a line that the game server prints must not
end it. The next deploy server reads on (``adopted.py``). Descriptor 3 is a pipe that a successful
exec closes; of a failed one it gets the number of the error.

    python -I -S child_setup.py PROGRAM ARGUMENT...

It imports little, since every launch waits for it.
"""

import os
import sys

TOLD = 3
FAILED = 126  # as a shell says of what it cannot execute


def main() -> None:
    """Prepare this process and exec the program."""
    os.setsid()
    if sys.platform == "linux":
        for output in (1, 2):
            reading = os.open(f"/proc/self/fd/{output}", os.O_RDONLY | os.O_NONBLOCK)
            os.set_inheritable(reading, True)
    os.set_inheritable(TOLD, False)
    try:
        os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - an argument list, no shell
    except OSError as error:
        os.write(TOLD, str(error.errno).encode())
        os._exit(FAILED)


if __name__ == "__main__":
    main()
