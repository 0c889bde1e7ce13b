"""Notices a game server that is frozen: it reads no datagram, and no player on it is heard.

A datagram that it may ignore is sent every few seconds. The kernel says how many bytes wait unread
in each UDP socket: those of a living server come and go, those of a frozen one only grow. On which
servers players are their heartbeats say, and the metagame tells us.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from twisted.logger import Logger, LogLevel

from svcserver.deploy.fleet import Fleet, GameServer
from svcserver.kernel.every import Every

log = Logger()
LOOK_S = 5.0
PING = b"svc ping"
TABLES = ("/proc/net/udp", "/proc/net/udp6")
LARGEST = 1024 * 1024  # bytes read of a table
ENDED = "{kind} {id} on port {port} has read nothing for {grace:.0f} s: it is ended"
SPARED = (
    "{kind} {id} on port {port} has read nothing for {grace:.0f} s, but players on it are heard: "
    "it is left alone until they are not"
)


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


@frozen
class Look:
    """What a look finds: who is frozen, and who reads nothing just now though players are heard."""

    frozen: list[GameServer]
    spared: list[GameServer]


@define
class _Silence:
    """A server's unread bytes, since when they have only grown, and whether that was said."""

    since: float
    unread: int
    said: bool = False


@define(eq=False)
class Freezes:
    """Who has read nothing, and of whose players nothing was heard, for ``grace_s``."""

    grace_s: float
    _silent: dict[str, _Silence] = field(factory=dict, init=False)

    def look(
        self,
        servers: Iterable[GameServer],
        waiting: Mapping[int, int],
        heard: Mapping[str, float],
        now: float,
    ) -> Look:
        """Look again; each server is named once. ``heard``: when a player on it last was."""
        before, self._silent = self._silent, {}
        found = Look([], [])
        for server in servers:
            unread_now = waiting.get(server.port, 0)
            if unread_now == 0:
                continue
            one = before.get(server.id) or _Silence(now, 0)
            if unread_now < one.unread:
                one = _Silence(now, 0)
            one.unread = unread_now
            if now - one.since < self.grace_s:
                self._silent[server.id] = one
            elif now - heard.get(server.id, float("-inf")) >= self.grace_s:
                found.frozen.append(server)
            else:
                self._silent[server.id] = one
                if not one.said:
                    found.spared.append(server)
                    one.said = True
        return found


def freeze_watch(
    clock: Any,
    freezes: Freezes,
    fleet: Fleet,
    end: Callable[[GameServer], object],
    read: Callable[[], list[str]] = tables,
    send: Callable[[int], object] = ping,
) -> Every:
    """The service that looks every ``LOOK_S``, and lets ``end`` have the frozen ones."""

    def say(text: str, server: GameServer, level: LogLevel) -> None:
        log.emit(
            level,
            text,
            kind=server.launch.kind.value,
            id=server.id,
            port=server.port,
            grace=freezes.grace_s,
        )

    def look() -> None:
        known = list(fleet.servers.values())
        found = freezes.look(known, unread(read()), fleet.heard, clock.seconds())
        for server in found.spared:
            say(SPARED, server, LogLevel.warn)
        for server in found.frozen:
            say(ENDED, server, LogLevel.error)
            end(server)
        for server in known:
            send(server.port)

    return Every(clock, LOOK_S, look, "the look for frozen game servers")
