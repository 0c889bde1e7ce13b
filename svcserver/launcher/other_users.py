"""Whether a connection to the page is another user's of this PC.

The link with its token is handed to the browser as an argument, and on Linux every user may list
the arguments of all processes. So a link opens nothing for a connection that belongs to another
user: the kernel says whose each is. On Windows only the user himself and administrators see them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LONGEST = 16 << 20  # bytes of a table that are read: a hundred thousand connections


def is_another_users(client: int, server: int) -> bool:
    """Whether the connection from port ``client`` to our port ``server`` is; False if unknown."""
    if sys.platform != "linux":
        return False
    return owner_in(map(_read, TABLES), client, server) not in (None, os.getuid())


def owner_in(tables: Iterable[str], client: int, server: int) -> int | None:
    """The user id of the connection's client in ``/proc/net/tcp``'s text; None if it is not there.

    A line's second and third field are the own and the other address, ``0100007F:A1B2`` with the
    port in hexadecimal digits, the eighth is the user id.
    """
    ends = f":{client:04X}", f":{server:04X}"
    for table in tables:
        for line in table.splitlines()[1:]:
            fields = line.split()
            if len(fields) > 7 and fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
                return int(fields[7])
    return None


def _read(table: Path) -> str:
    try:
        with table.open("rb") as file:
            return file.read(LONGEST).decode("ascii", "replace")
    except OSError:
        return ""
