"""What the checks ask of the machine; tests replace it."""

from __future__ import annotations

import errno
import http.client
import os
import shutil
import socket
import sys
import time
from collections.abc import Container, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from attrs import frozen

from svcserver.allowlist.firewall import may_change_firewall
from svcserver.board.address import Address
from svcserver.ctl.doctor.engine import Told, ask
from svcserver.deploy.executables import try_program
from svcserver.kernel.processes import PROCESSES
from svcserver.relay.checking import presented
from svcserver.relay.relaying import Target

ANSWER_S = 3.0
_HELD = ("0A", "07")  # listening, and a UDP socket, as the kernel writes them
MAX_ANSWER = 1024 * 1024


class Room(NamedTuple):
    """The size and free space of a disk in bytes."""

    total: int
    free: int


class Limits(NamedTuple):
    """The limits of open files of a process."""

    soft: int
    hard: int


class Port(NamedTuple):
    """Whether a port could be listened on."""

    taken: bool = False
    denied: bool = False


@frozen
class Holder:
    """The process that listens on a port: its command line, and the folder that it runs in."""

    pid: int
    words: tuple[str, ...]
    folder: Path = Path("/")

    def settings_of(self, component: str) -> Path | None:
        """The settings' file of this component that it runs; None for another program."""
        if f"svc-{component}" not in self.words or "--env-file" not in self.words[:-1]:
            return None
        return self.folder / self.words[self.words.index("--env-file") + 1]


@frozen
class Machine:
    """The machine that the checks run on."""

    def wall_clock(self) -> float:
        """The time of this machine, in epoch seconds."""
        return time.time()

    def room(self, path: Path) -> Room:
        """The space of the disk that holds ``path``."""
        found = shutil.disk_usage(path)
        return Room(found.total, found.free)

    def executes(self, program: str) -> OSError | None:
        """Why the system does not execute the program; None where it does."""
        return try_program(program)

    def open_files(self) -> Limits:
        """The limits of open files; ``sys.maxsize`` where there is none."""
        if sys.platform == "win32":
            return Limits(sys.maxsize, sys.maxsize)
        import resource

        found = resource.getrlimit(resource.RLIMIT_NOFILE)
        soft, hard = (one if one >= 0 else sys.maxsize for one in found)
        return Limits(soft, hard)

    def memory(self) -> int | None:
        """The machine's memory in bytes; None where the system does not tell."""
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, ValueError, OSError):
            return None

    def port(self, host: str, port: int, *, udp: bool = False) -> Port:
        """Whether that address can be bound; tries it."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM) as one:
            if not udp:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind((host, port))
            except OSError as why:
                return Port(why.errno == errno.EADDRINUSE, why.errno == errno.EACCES)
        return Port()

    def holder(
        self, host: str, port: int, component: str = "", *, udp: bool = False
    ) -> Holder | None:
        """The process that holds an address; None where the system does not tell this user.

        Of another user's processes only the command lines show: it is then the one that runs
        ``component``.
        """
        held = _sockets(host, port, "udp" if udp else "tcp")
        processes = sorted(PROCESSES.glob("[0-9]*"), key=lambda one: int(one.name)) if held else []
        for process in processes:
            if _has(process, held):
                return _holder(process)
        users = set(held.values())
        for process in processes if component else ():
            with suppress(OSError):
                found = _holder(process) if process.stat().st_uid in users else None
                if found is not None and found.settings_of(component) is not None:
                    return found
        return None

    def addresses(self, host: str) -> frozenset[str]:
        """The IPv4 addresses of a name; empty when it does not resolve."""
        try:
            found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return frozenset()
        return frozenset(str(one[4][0]) for one in found)

    def answer(
        self, host: str, port: int, path: str, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        """Status and body of a GET; status 0 without an HTTP answer."""
        connection = http.client.HTTPConnection(host, port, timeout=ANSWER_S)
        try:
            connection.request("GET", path, headers=dict(headers))
            with connection.getresponse() as reply:
                return reply.status, reply.read(MAX_ANSWER)
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def engine(self, address: Address) -> Told:
        """What the engine of live state says of itself; raises OSError, or Refused."""
        return ask(address, ANSWER_S)

    def presented(self, host: str, port: int) -> str:
        """The fingerprint of the certificate presented there; empty without TLS."""
        try:
            return presented(Target(host, port, ""), ANSWER_S)
        except OSError:
            return ""

    def may_change_firewall(self) -> bool:
        return may_change_firewall()


def _sockets(host: str, port: int, kind: str) -> dict[str, int]:
    """The sockets that hold an address, as /proc names them, and the users that they belong to."""
    found: dict[str, int] = {}
    for name in (kind, f"{kind}6"):
        with suppress(OSError):
            for line in (PROCESSES / "net" / name).read_text("ascii").splitlines()[1:]:
                row = line.split()
                address, _, number = row[1].rpartition(":")
                if row[3] in _HELD and int(number, 16) == port and _covers(address, host):
                    found[f"socket:[{row[9]}]"] = int(row[7])
    return found


def _covers(address: str, host: str) -> bool:
    """Whether whoever listens on the kernel's ``address`` is in the way of ``host``."""
    if ":" in host or host == "0.0.0.0" or not address.strip("0"):  # noqa: S104 - compared only
        return True
    return address.endswith(f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}")


def _has(process: Path, sockets: Container[str]) -> bool:
    try:
        return any(os.readlink(one) in sockets for one in (process / "fd").iterdir())
    except OSError:  # it has ended, or belongs to another user
        return False


def _holder(process: Path) -> Holder | None:
    try:
        line = (process / "cmdline").read_text("utf-8", "replace").rstrip("\0")
    except OSError:
        return None
    folder = Path("/")
    with suppress(OSError):
        folder = Path(os.readlink(process / "cwd"))
    return Holder(int(process.name), tuple(line.split("\0")), folder)
