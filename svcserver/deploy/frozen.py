"""Notices a game server that is frozen: it reads no datagram, and no player on it is heard.

A datagram that it may ignore is sent every few seconds. The kernel says how many bytes wait unread
in each UDP socket: those of a living server come and go, those of a frozen one only grow. On which
servers players are their heartbeats say, and the metagame tells us.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from attrs import define, field, frozen
from twisted.logger import Logger, LogLevel

from svcserver.deploy.family import UdpSocket, udp_sockets, udp_tables
from svcserver.deploy.fleet import Fleet, GameServer
from svcserver.kernel.every import Every

log = Logger()
LOOK_S = 5.0
PING = b"svc ping"
LOCALHOST = "127.0.0.1"
ENDED = "{kind} {id} on port {port} has read nothing for {grace:.0f} s: it is ended"
SPARED = (
    "{kind} {id} on port {port} has read nothing for {grace:.0f} s, but players on it are heard: "
    "it is left alone until they are not"
)


def unread(
    sockets: Iterable[UdpSocket],
    servers: Iterable[GameServer],
    owned: Callable[[GameServer], Collection[int] | None],
) -> dict[str, int]:
    """Return the unread bytes of each game server's own sockets on its port, by its id.

    ``owned`` gives the inodes of a game server's sockets; one of which it knows none, since the
    kernel hides them, is left out: another program may have the same port on another address.
    """
    waiting = [one for one in sockets if one.unread and _is_reached(one.address)]
    found: dict[str, int] = {}
    for server in servers:
        here = [one for one in waiting if one.port == server.port]
        inodes = owned(server) if here else None
        if inodes is not None:
            found[server.id] = sum(one.unread for one in here if one.inode in inodes)
    return found


def _is_reached(address: str) -> bool:
    """Whether players' datagrams or ours come to the address: all but a loopback one of its own."""
    try:
        words = [bytes.fromhex(address[at : at + 8]) for at in range(0, len(address), 8)]
        whole = b"".join(int.from_bytes(word, sys.byteorder).to_bytes(4, "big") for word in words)
        found = ipaddress.ip_address(whole)
    except (ValueError, OverflowError):
        return False
    plain = getattr(found, "ipv4_mapped", None) or found
    return str(plain) == LOCALHOST or not plain.is_loopback


def ping(port: int) -> None:
    """Send a datagram that means nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.setblocking(False)
        try:
            wire.sendto(PING, (LOCALHOST, port))
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
        waiting: Mapping[str, int],
        heard: Mapping[str, float],
        now: float,
    ) -> Look:
        """Look again; each server is named once.

        ``waiting``: unread bytes by id. ``heard``: when a player on it last was.
        """
        before, self._silent = self._silent, {}
        found = Look([], [])
        for server in servers:
            unread_now = waiting.get(server.id, 0)
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
    owned: Callable[[GameServer], Collection[int] | None],
    read: Callable[[], list[str]] = udp_tables,
    send: Callable[[int], object] = ping,
) -> Every:
    """The service that looks every ``LOOK_S``, and lets ``end`` have the frozen ones.

    ``owned`` gives the inodes of a game server's sockets, None where they cannot be known.
    """

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
        waiting = unread(udp_sockets(read()), known, owned)
        found = freezes.look(known, waiting, fleet.heard, clock.seconds())
        for server in found.spared:
            say(SPARED, server, LogLevel.warn)
        for server in found.frozen:
            say(ENDED, server, LogLevel.error)
            end(server)
        for server in known:
            send(server.port)

    return Every(clock, LOOK_S, look, "the look for frozen game servers")
