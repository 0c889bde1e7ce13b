"""Prepares a game server's process, and then executes the server's program in it.

The process gets its own process group. It also opens the read ends of its own output pipes. So the
pipes have a reader after a crash of the deploy server, and the game server can still write to them.
The next deploy server reads the output (``process.py``). Descriptor 3 is a pipe that a successful
exec closes. If the exec fails, this process writes the error number there.

    python -I -S child_setup.py PROGRAM ARGUMENT...

The module imports little, because every launch waits for it.
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
