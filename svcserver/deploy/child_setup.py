"""Prepares the process of a game server, then replaces itself with the server's program (exec).

It makes its own process group, and keeps the reading ends of its output pipes open in itself:
when the deploy server crashes, the next line of output must not end the game server. The next
deploy server reads on (``process.py``). Descriptor 3 is a pipe that a successful exec closes; a
failed exec writes the number of its error there.

    python -I -S child_setup.py PROGRAM ARGUMENT...

It imports little, since every launch waits for it.
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
