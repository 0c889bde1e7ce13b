"""The process that listens on a port, found in Linux's ``/proc``."""

import os
import socket
import sys
from collections.abc import Callable, Container
from contextlib import suppress
from pathlib import Path, PureWindowsPath

from attrs import frozen

from svcserver.kernel.processes import PROCESSES

_HELD = ("0A", "07")  # the kernel's codes for a listening TCP socket and a UDP socket


@frozen
class PortHolder:
    """The process that listens on a port: its command line and its working folder."""

    pid: int
    words: tuple[str, ...]
    folder: Path = Path("/")

    def settings_of(self, component: str) -> Path | None:
        """Return the component's env file if the process runs this component, else None."""
        if f"svc-{component}" not in self.words or "--env-file" not in self.words[:-1]:
            return None
        return self.folder / self.words[self.words.index("--env-file") + 1]

    @property
    def program(self) -> str:
        """The ``svc-`` name in the command line; without one, the program's name."""
        names = [PureWindowsPath(word).name for word in self.words]  # Wine: Windows paths
        service = next((name for name in names if name.startswith("svc-")), "")
        return service or names[0]


def port_holder(
    host: str, port: int, may_be: Callable[[PortHolder], bool], *, udp: bool = False
) -> PortHolder | None:
    """Return the process that listens on an address; None if it cannot be found.

    If another user's process listens, the system shows the user, but not the process. In this case,
    the result is the first process of that user for which ``may_be`` is true.
    """
    held = _sockets(host, port, "udp" if udp else "tcp")
    processes = sorted(PROCESSES.glob("[0-9]*"), key=lambda path: int(path.name)) if held else []
    for process in processes:
        if _has(process, held):
            return _holder(process)
    users = set(held.values())
    for process in processes:
        with suppress(OSError):
            candidate = _holder(process) if process.stat().st_uid in users else None
            if candidate is not None and may_be(candidate):
                return candidate
    return None


def _sockets(host: str, port: int, kind: str) -> dict[str, int]:
    """Map the name of each socket that listens on the address to the uid of the socket's owner."""
    sockets: dict[str, int] = {}
    for name in (kind, f"{kind}6"):
        with suppress(OSError):
            for line in (PROCESSES / "net" / name).read_text("ascii").splitlines()[1:]:
                row = line.split()
                address, _, number = row[1].rpartition(":")
                if row[3] in _HELD and int(number, 16) == port and _covers(address, host):
                    sockets[f"socket:[{row[9]}]"] = int(row[7])
    return sockets


def _covers(address: str, host: str) -> bool:
    """Return whether a socket on ``address`` prevents listening on ``host``.

    ``address`` is in the kernel's hexadecimal form.
    """
    if ":" in host or host == "0.0.0.0" or not address.strip("0"):  # noqa: S104 - compared only
        return True
    return address.endswith(f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}")


def _has(process: Path, sockets: Container[str]) -> bool:
    try:
        return any(os.readlink(link) in sockets for link in (process / "fd").iterdir())
    except OSError:  # the process has ended, or belongs to another user
        return False


def _holder(process: Path) -> PortHolder | None:
    try:
        line = (process / "cmdline").read_text("utf-8", "replace").rstrip("\0")
    except OSError:
        return None
    folder = Path("/")
    with suppress(OSError):
        folder = Path(os.readlink(process / "cwd"))
    return PortHolder(int(process.name), tuple(line.split("\0")), folder)
