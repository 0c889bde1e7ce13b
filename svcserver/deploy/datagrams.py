"""Datagrams that show whether players' packets reach a machine's game ports.

The deploy server and the agent of another machine send each other a nonce. Each uses the address at
which players reach the other. Nobody answers a datagram. Each side uses one socket to send and
another to receive. With a single socket, a firewall could take the other side's datagrams for
replies, and admit them although it blocks players' datagrams.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypedDict

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.protocol import DatagramProtocol
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.deploy.fleet import Fleet, MachineRecord, NoCapacity
from svcserver.deploy.hunts import GameServerKind
from svcserver.kernel.secrets import constant_time_equal, hex_token

log = Logger()

PAUSES_S = (0.5, 0.5, 1.0)  # before each datagram: the receiver opens its port first
LAST_S = 1.0  # after the last datagram


class DatagramTrial(TypedDict):
    """A test of a game port: the agent sends a nonce to ``host`` and must receive another nonce."""

    port: int
    host: str
    sent: str
    awaited: str


class Receiver(DatagramProtocol):
    """The listener on a game port; it records whether the expected nonce arrives."""

    def __init__(self, nonce: str) -> None:
        self.nonce, self.has_received = nonce.encode(), False

    def datagramReceived(self, datagram: bytes, addr: Any) -> None:
        self.has_received = self.has_received or constant_time_equal(self.nonce, datagram)


async def exchange(
    reactor: Any, port: int, address: str, *, sent: str, awaited: str
) -> bool | None:
    """Send one nonce (``sent``) to an address; return whether another (``awaited``) arrives.

    Both sides receive at ``port``. Returns None if another program uses the port here.
    """
    receiver = Receiver(awaited)
    try:
        opened = reactor.listenUDP(port, receiver)
    except CannotListenError:
        return None
    sockets = [opened]
    try:
        sender = reactor.listenUDP(0, DatagramProtocol())
        sockets.append(sender)
        for pause in PAUSES_S:
            await deferLater(reactor, pause)
            try:
                sender.write(sent.encode(), (address, port))
            except OSError as error:  # no route
                log.debug("cannot send a datagram to {address}: {why}", address=address, why=error)
        await deferLater(reactor, LAST_S)
    finally:
        for listening in sockets:
            await maybeDeferred(listening.stopListening)
    return receiver.has_received


@define(eq=False)
class DatagramTrials:
    """The tests of game ports; in each, this machine and another machine's agent exchange nonces.

    ``machines`` returns the machines of the swarm. A test reserves a port, so that no game server
    starts there meanwhile. If only one port is free, no test begins.
    """

    reactor: Any
    fleet: Fleet
    is_bound: Callable[[int], bool]
    machines: Callable[[], list[MachineRecord]]
    exchange: Callable[..., Awaitable[bool | None]] = exchange
    _own_result: bool | None = field(default=None, init=False)
    _running: Deferred[None] | None = field(default=None, init=False)

    def begin(self, node: str) -> DatagramTrial | None:
        """Begin a test with a machine's agent; return None if that is impossible now."""
        own = next((record["address"] for record in self.machines() if record["own"]), "")
        peer = next((record["address"] for record in self.machines() if record["id"] == node), "")
        is_running = self._running is not None and not self._running.called
        if not own or not peer or is_running:
            return None
        try:
            port = self.fleet.hold(GameServerKind.HUNT, self.is_bound)
        except NoCapacity:
            return None
        try:
            self.fleet.release(self.fleet.hold(GameServerKind.HUNT, self.is_bound))
        except NoCapacity:
            self.fleet.release(port)
            return None
        here, there = hex_token(32), hex_token(32)
        self._running = Deferred.fromCoroutine(self._run(port, peer, here, there))
        self._running.addErrback(_failed)
        return {"port": port, "host": own, "sent": here, "awaited": there}

    async def _run(self, port: int, peer: str, here: str, there: str) -> None:
        try:
            result = await self.exchange(self.reactor, port, peer, sent=there, awaited=here)
            if result is not None:
                self._own_result = result
        finally:
            self.fleet.release(port)

    def listed(self) -> list[MachineRecord]:
        """Return the machines.

        For this machine, ``reached`` is the result of the last test of its game ports.
        """
        return [
            {**record, "reached": self._own_result} if record["own"] else record
            for record in self.machines()
        ]

    def stop(self) -> None:
        """End the current test."""
        if self._running is not None:
            self._running.cancel()


def _failed(failure: Failure) -> None:
    if failure.check(CancelledError) is None:
        log.failure("a check of the game ports failed", failure)
