"""Notices a game server that is frozen: its process lives, but reads no datagram any more.

A datagram that it may ignore is sent every few seconds. The kernel says how many bytes wait unread
in each UDP socket: those of a living server come and go, those of a frozen one only grow.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from svcserver.deploy.fleet import GameServer
from svcserver.kernel.every import Every

log = Logger()
LOOK_S = 5.0
PING = b"svc ping"
TABLES = ("/proc/net/udp", "/proc/net/udp6")
LARGEST = 1024 * 1024  # bytes read of a table


def unread(texts: Iterable[str]) -> dict[int, int]:
    """Unread bytes by UDP port, of the kernel's tables; lines that are none are left out."""
    found: dict[int, int] = {}
    for text in texts:
        for line in text.splitlines()[1:]:
            words = line.split()
            try:
                port = int(words[1].rpartition(":")[2], 16)
                waiting = int(words[4].partition(":")[2], 16)
            except (IndexError, ValueError):
                continue
            found[port] = found.get(port, 0) + waiting
    return found


def tables() -> list[str]:
    """The kernel's tables; none where there are none, as on Windows."""
    found = []
    for name in TABLES:
        try:
            with Path(name).open("rb") as file:
                found.append(file.read(LARGEST).decode("ascii", "replace"))
        except OSError:
            continue
    return found


def ping(port: int) -> None:
    """Send a datagram that means nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.setblocking(False)
        try:
            wire.sendto(PING, ("127.0.0.1", port))
        except OSError as why:  # nobody listens yet, or the socket is full: the table tells
            log.debug("no ping to {port}: {why}", port=port, why=why.strerror)


@define(eq=False)
class Freezes:
    """Who has read nothing for ``grace_s``, look by look."""

    grace_s: float
    _since: dict[str, tuple[float, int]] = field(factory=dict, init=False)  # and unread then

    def look(
        self, servers: Iterable[GameServer], waiting: Mapping[int, int], now: float
    ) -> list[GameServer]:
        """The frozen ones; each is named once."""
        before, self._since = self._since, {}
        frozen = []
        for server in servers:
            bytes_now = waiting.get(server.port, 0)
            since, bytes_then = before.get(server.id, (now, 0))
            if bytes_now == 0:
                continue
            if bytes_now < bytes_then:
                since = now
            if now - since >= self.grace_s:
                frozen.append(server)
            else:
                self._since[server.id] = since, bytes_now
        return frozen


def freeze_watch(
    clock: Any,
    freezes: Freezes,
    servers: Callable[[], Iterable[GameServer]],
    end: Callable[[GameServer], object],
    read: Callable[[], list[str]] = tables,
    send: Callable[[int], object] = ping,
) -> Every:
    """The service that looks every ``LOOK_S``, and lets ``end`` have the frozen ones."""

    def look() -> None:
        known = list(servers())
        for server in freezes.look(known, unread(read()), clock.seconds()):
            text = "{kind} {id} on port {port} has read nothing for {grace:.0f} s: it is ended"
            log.error(
                text,
                kind=server.launch.kind.value,
                id=server.id,
                port=server.port,
                grace=freezes.grace_s,
            )
            end(server)
        for server in known:
            send(server.port)

    return Every(clock, LOOK_S, look, "the look for frozen game servers")
