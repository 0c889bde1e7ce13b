"""Detects frozen game servers, which read no datagrams and whose players send no heartbeats.

Every few seconds each server gets a datagram that game servers ignore. The kernel shows the number
of unread bytes in each UDP socket. On a working server the number rises and falls; on a frozen
server it only rises. The metagame reports the servers whose players have sent a heartbeat.
"""

import ipaddress
import socket
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from svcserver.deploy.family import UdpSocket, udp_sockets, udp_tables
from svcserver.deploy.fleet import Fleet, GameServer
from svcserver.kernel.every import Every

log = Logger()
CHECK_S = 5.0
PING = b"svc ping"
LOCALHOST = "127.0.0.1"
ENDED = "{kind} {id} on port {port} has read nothing for {grace:.0f} s and is killed"
SPARED = (
    "{kind} {id} on port {port} has read nothing for {grace:.0f} s, but its players still send "
    "heartbeats: it keeps running until the heartbeats stop"
)

# Returns the inodes of a game server's sockets, or None if the kernel hides them.
InodesOf = Callable[[GameServer], Collection[int] | None]


def unread_bytes(
    sockets: Iterable[UdpSocket], servers: Iterable[GameServer], inodes_of: InodesOf
) -> dict[str, int]:
    """Map each game server's id to the number of bytes that the server has not read.

    A server is left out if nothing on its port is unread, or if the kernel hides its sockets.
    """
    unread = [row for row in sockets if row.unread and _is_public(row.address)]
    result: dict[str, int] = {}
    for server in servers:
        on_port = [row for row in unread if row.port == server.port]
        inodes = inodes_of(server) if on_port else None
        if inodes is not None:
            result[server.id] = sum(row.unread for row in on_port if row.inode in inodes)
    return result


def _is_public(address: str) -> bool:
    """Return whether datagrams from players or from ``send_ping`` reach a socket at this address.

    The address is in the kernel's hexadecimal form.
    """
    try:
        words = [bytes.fromhex(address[at : at + 8]) for at in range(0, len(address), 8)]
        packed = b"".join(int.from_bytes(word, sys.byteorder).to_bytes(4, "big") for word in words)
        ip = ipaddress.ip_address(packed)
    except (ValueError, OverflowError):
        return False
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return str(ip) == LOCALHOST or not ip.is_loopback


def send_ping(port: int) -> None:
    """Send a datagram that game servers ignore."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.setblocking(False)
        try:
            wire.sendto(PING, (LOCALHOST, port))
        except OSError as error:  # nobody listens yet, or the socket is full, as the table shows
            log.debug("cannot send a ping to port {port}: {why}", port=port, why=error.strerror)


@define
class _UnreadState:
    """A server's number of unread bytes; ``since`` is when it last fell or rose from zero.

    ``is_logged`` is True if a warning about the server has been logged.
    """

    since: float
    unread: int
    is_logged: bool = False


@define(eq=False)
class FreezeDetector:
    """The detector of servers that read nothing and have no heartbeats for ``grace_s`` seconds."""

    grace_s: float
    _states: dict[str, _UnreadState] = field(factory=dict, init=False)

    def check(
        self,
        servers: Iterable[GameServer],
        unread: Mapping[str, int],
        last_heartbeats: Mapping[str, float],
        now: float,
    ) -> tuple[list[GameServer], list[GameServer]]:
        """Return the frozen servers, and the servers that only need a warning.

        A server is not frozen while its players send heartbeats. The keys of ``unread`` (numbers of
        bytes) and ``last_heartbeats`` (times) are server ids.
        """
        before, self._states = self._states, {}
        frozen, spared = [], []
        for server in servers:
            unread_now = unread.get(server.id, 0)
            if unread_now == 0:
                continue
            state = before.get(server.id) or _UnreadState(now, 0)
            if unread_now < state.unread:
                state = _UnreadState(now, 0)
            state.unread = unread_now
            is_silent = now - last_heartbeats.get(server.id, float("-inf")) >= self.grace_s
            if now - state.since >= self.grace_s:
                if is_silent:
                    frozen.append(server)
                    continue
                if not state.is_logged:
                    spared.append(server)
                    state.is_logged = True
            self._states[server.id] = state
        return frozen, spared


def freeze_watch(
    clock: Any,
    detector: FreezeDetector,
    fleet: Fleet,
    end: Callable[[GameServer], object],
    inodes_of: InodesOf,
    read_tables: Callable[[], list[str]] = udp_tables,
    ping: Callable[[int], object] = send_ping,
) -> Every:
    """Return the service that looks for frozen servers every ``CHECK_S`` seconds.

    It calls ``end`` with each frozen server.
    """

    def check() -> None:
        servers = list(fleet.servers.values())
        unread = unread_bytes(udp_sockets(read_tables()), servers, inodes_of)
        frozen, spared = detector.check(servers, unread, fleet.last_heartbeats, clock.seconds())
        for server in spared:
            log.warn(SPARED, **server.log_fields(), grace=detector.grace_s)
        for server in frozen:
            log.error(ENDED, **server.log_fields(), grace=detector.grace_s)
            end(server)
        for server in servers:
            ping(server.port)

    return Every(clock, CHECK_S, check, "the check for frozen game servers")
