"""What the checks ask of the machine; tests replace it."""

from __future__ import annotations

import errno
import http.client
import os
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from attrs import frozen

from svcserver.allowlist.firewall import may_change_firewall
from svcserver.board.address import Address
from svcserver.ctl.doctor.engine import Told, ask
from svcserver.relay.checking import presented
from svcserver.relay.relaying import Target

ANSWER_S = 3.0
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
class Machine:
    """The machine that the checks run on."""

    def wall_clock(self) -> float:
        """The time of this machine, in epoch seconds."""
        return time.time()

    def room(self, path: Path) -> Room:
        """The space of the disk that holds ``path``."""
        found = shutil.disk_usage(path)
        return Room(found.total, found.free)

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
