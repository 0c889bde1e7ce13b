"""The class ``Machine``, from which ``svcctl doctor`` gets all facts about the machine.

Tests replace this class.
"""

from __future__ import annotations

import errno
import http.client
import os
import shutil
import socket
import ssl
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import hiredis
from attrs import frozen

from svcserver.allowlist.firewall import may_change_firewall
from svcserver.board.address import EngineAddress
from svcserver.board.connection import Argument, encoded
from svcserver.deploy.executables import try_program
from svcserver.kernel.port_holders import PortHolder, port_holder
from svcserver.relay.checking import presented
from svcserver.relay.relaying import Target

MOST_BYTES = 1 << 20  # the longest reply that is read


class EngineRefused(Exception):
    """The error when the Valkey or Redis server replies with an error."""


@frozen
class EngineFacts:
    """The facts about a Valkey or Redis server: INFO, the clock, and the settings if readable.

    ``buffers`` is ``client-output-buffer-limit``. For each kind of client, it has three numbers:
    the hard limit in bytes, the soft limit in bytes, and how many seconds a client can exceed the
    soft limit.
    """

    info: Mapping[str, str]
    seconds: float  # epoch seconds
    save: str | None = None
    buffers: str | None = None
    is_open: bool = False  # the server replies without a password


def fetch_engine_facts(address: EngineAddress, patience_s: float) -> EngineFacts:
    """Return the facts about a Valkey or Redis server; raises OSError or EngineRefused."""
    with closing(_connected(address, patience_s)) as line:
        connection = _ValkeyConnection(line)
        if address.password:
            connection.run_command(
                "AUTH", *((address.user,) if address.user else ()), address.password
            )
        connection.run_command("SELECT", address.db)
        text: bytes = connection.run_command("INFO")
        seconds, micros = connection.run_command("TIME")
        save, buffers = (
            _setting(connection, name) for name in ("save", "client-output-buffer-limit")
        )
    is_open = not address.password or _answers_anybody(address, patience_s)
    pairs = (row.partition(":") for row in text.decode("utf-8", "replace").splitlines())
    info = {name: value.strip() for name, colon, value in pairs if colon}
    return EngineFacts(info, int(seconds) + int(micros) / 1e6, save, buffers, is_open)


def _answers_anybody(address: EngineAddress, patience_s: float) -> bool:
    """Return whether the server accepts commands without a password."""
    with closing(_connected(address, patience_s)) as line:
        try:
            _ValkeyConnection(line).run_command("GET", "svc:")
        except EngineRefused:
            return False
    return True


def _setting(connection: _ValkeyConnection, name: str) -> str | None:
    try:
        reply = connection.run_command("CONFIG", "GET", name)
    except EngineRefused:  # a hosted engine may forbid CONFIG
        return None
    return reply[1].decode() if reply and len(reply) == 2 else None


def _connected(address: EngineAddress, patience_s: float) -> socket.socket:
    plain = socket.create_connection((address.host, address.port), patience_s)
    if not address.tls:
        return plain
    try:
        context = ssl.create_default_context(cafile=address.ca)
        return context.wrap_socket(plain, server_hostname=address.host)
    except BaseException:
        plain.close()
        raise


class _ValkeyConnection:
    """A connection that sends commands to the Valkey or Redis server, one at a time."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._replies: Any = hiredis.Reader()

    def run_command(self, *command: Argument) -> Any:
        """Send a command and wait for the reply; return the reply."""
        self._line.sendall(encoded(*command))
        size = 0
        while True:
            try:
                reply = self._replies.gets()
            except hiredis.ProtocolError:
                raise EngineRefused("no Valkey or Redis server answers at this address") from None
            if reply is not False:
                break
            data = self._line.recv(65_536)
            size += len(data)
            if not data or size > MOST_BYTES:
                raise OSError("the server did not send a complete answer")
            self._replies.feed(data)
        if isinstance(reply, hiredis.ReplyError):
            raise EngineRefused(str(reply))
        return reply


ANSWER_S = 3.0
MAX_ANSWER = 1024 * 1024


class DiskSpace(NamedTuple):
    """The size and the free space of a disk, in bytes."""

    total: int
    free: int


class FileLimits(NamedTuple):
    """The soft and hard limits on a process's open files."""

    soft: int
    hard: int


class PortState(NamedTuple):
    """The result of an attempt to listen on a port."""

    taken: bool = False
    denied: bool = False


@frozen
class Machine:
    """The machine on which the checks run."""

    def wall_clock(self) -> float:
        """Return the machine's current time in epoch seconds."""
        return time.time()

    def room(self, path: Path) -> DiskSpace:
        """Return the size and free space of the disk that holds ``path``."""
        usage = shutil.disk_usage(path)
        return DiskSpace(usage.total, usage.free)

    def executes(self, program: str) -> OSError | None:
        """Return why the system cannot execute the program; None if it can."""
        return try_program(program)

    def open_files(self) -> FileLimits:
        """Return the limits on open files; ``sys.maxsize`` means unlimited."""
        if sys.platform == "win32":
            return FileLimits(sys.maxsize, sys.maxsize)
        import resource

        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        soft, hard = (limit if limit >= 0 else sys.maxsize for limit in limits)
        return FileLimits(soft, hard)

    def memory(self) -> int | None:
        """Return the machine's memory in bytes; None if unknown."""
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, ValueError, OSError):
            return None

    def port(self, host: str, port: int, *, udp: bool = False) -> PortState:
        """Try to bind the address; return the result."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM) as probe:
            if not udp:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as why:
                return PortState(why.errno == errno.EADDRINUSE, why.errno == errno.EACCES)
        return PortState()

    def connects(self, host: str, port: int) -> bool:
        """Return whether a program at the address accepts TCP connections."""
        try:
            with socket.create_connection((host, port), ANSWER_S):
                return True
        except OSError:
            return False

    def holder(
        self, host: str, port: int, component: str = "", *, udp: bool = False
    ) -> PortHolder | None:
        """Return the process that listens on an address; None if it cannot be found.

        For a process of another user, the system shows the user, but not which of the user's
        processes has the port. In this case, the result is the user's process that runs
        ``component``.
        """

        def runs_component(candidate: PortHolder) -> bool:
            return bool(component) and candidate.settings_of(component) is not None

        return port_holder(host, port, runs_component, udp=udp)

    def addresses(self, host: str) -> frozenset[str]:
        """Return the IPv4 addresses of a host name; empty if it does not resolve."""
        try:
            entries = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return frozenset()
        return frozenset(str(entry[4][0]) for entry in entries)

    def answer(
        self, host: str, port: int, path: str, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        """Send a GET request; return the reply's status and body, or (0, b"") if no reply came."""
        connection = http.client.HTTPConnection(host, port, timeout=ANSWER_S)
        try:
            connection.request("GET", path, headers=dict(headers))
            with connection.getresponse() as reply:
                return reply.status, reply.read(MAX_ANSWER)
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def engine(self, address: EngineAddress) -> EngineFacts:
        """Return the facts about the Valkey or Redis server; raises OSError or EngineRefused."""
        return fetch_engine_facts(address, ANSWER_S)

    def presented(self, host: str, port: int) -> str:
        """Return the fingerprint of the certificate at the address; empty if there is no TLS."""
        try:
            return presented(Target(host, port, ""), ANSWER_S)
        except OSError:
            return ""

    def may_change_firewall(self) -> bool:
        return may_change_firewall()
