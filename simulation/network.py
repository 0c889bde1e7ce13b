"""TCP in memory: connections with latency, back-pressure, breaks and silent losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import (
    CannotListenError,
    ConnectionAborted,
    ConnectionDone,
    ConnectionRefusedError,
    TimeoutError,
)
from twisted.internet.interfaces import IConnector, IListeningPort
from twisted.python.failure import Failure
from zope.interface import implementer

from simulation.clock import World
from simulation.ends import End
from svcserver.kernel.buggify import buggify

LOOPBACK_S = 0.0001  # from one process of a machine to another
LOOPBACK = "127.0.0.1"
STALLS_S = 8.0


@frozen
class Route:
    """The path between two machines: its lowest latency, and by how much the latency varies."""

    least_s: float
    varies_s: float


@define(eq=False)
class Listener:
    """A listening port of a process."""

    process: Any
    factory: Any
    address: IPv4Address

    def release(self) -> None:
        """Release the factory of a dead process."""
        self.factory = None


@define(eq=False)
class Network:
    """The simulated network's listeners and connections; each delivery calls ``sent``."""

    world: World
    sent: Callable[[int, str, bytes], None]
    routes: dict[tuple[str, str], Route] = field(factory=dict)
    silent: set[str] = field(factory=set)  # machines whose packets are lost at the moment
    off: set[str] = field(factory=set)  # machines without power
    slow: set[str] = field(factory=set)  # machines that take bytes one piece at a time
    ends: dict[int, End] = field(factory=dict)
    _listeners: dict[tuple[str, int], Listener] = field(factory=dict, init=False)
    _machines: dict[str, str] = field(factory=dict, init=False)  # by their public address
    _apart: dict[tuple[str, str], None] = field(factory=dict, init=False)  # process and machine
    _number: int = field(default=0, init=False)
    _port: int = field(default=40_000, init=False)

    def name(self, address: str, machine: str) -> None:
        """Make ``machine`` the target of connections to the public ``address``."""
        self._machines[address] = machine

    def listen(self, process: Any, port: int, factory: Any, interface: str) -> Port:
        """Listen on a port; raises CannotListenError if it is taken."""
        if (process.machine, port) in self._listeners:
            raise CannotListenError(interface, port, OSError(98, "Address already in use"))
        here = IPv4Address("TCP", interface or "0.0.0.0", port)  # noqa: S104
        listener = Listener(process, factory, here)
        self._listeners[process.machine, port] = listener
        process.listening[port] = listener
        return Port(self, listener)

    def close(self, listener: Listener) -> None:
        """Accept no new connections."""
        key = listener.process.machine, listener.address.port
        if self._listeners.get(key) is listener:
            del self._listeners[key]
        listener.process.listening.pop(listener.address.port, None)

    def isolate(self, process: Any, machine: str, spared: int | None = None) -> None:
        """Disconnect the process from the machine until ``join``; other processes stay connected.

        ``spared`` is the number of a connection that survives; the oldest connection has the number
        0.
        """
        self._apart[process.name, machine] = None
        there = [end for end in process.ends.values() if end.far_end.process.machine == machine]
        for number, end in enumerate(there):
            if number != spared:
                end.reset()

    def join(self, process: Any, machine: str) -> None:
        """Undo ``isolate``."""
        self._apart.pop((process.name, machine), None)

    def connect(self, process: Any, host: str, port: int, attempt: Connector) -> None:
        """Open a connection, and report the outcome to ``attempt``."""
        local = host.startswith("127.") or host in ("localhost", "::1")
        machine = process.machine if local else self._machines.get(host, host)
        wait = self.latency(process.machine, machine)
        apart = (process.name, machine) in self._apart
        if apart or machine in self.off or not self.silent.isdisjoint((process.machine, machine)):
            return  # no answer: the attempt times out
        self.world.later(2 * wait, lambda: self._arrive(process, machine, host, port, attempt))

    def _arrive(self, process: Any, machine: str, host: str, port: int, attempt: Connector) -> None:
        if attempt.over or process.dead:
            return
        listener = self._listeners.get((machine, port))
        if listener is None or listener.process.dead:
            attempt.failed(ConnectionRefusedError())
            return
        thawed = listener.process.frozen_until
        if thawed > self.world.now:
            self.world.at(thawed, lambda: self._arrive(process, machine, host, port, attempt))
            return
        self._port = 40_000 + (self._port - 39_999) % 20_000
        source = attempt.source or (LOOPBACK if machine == process.machine else process.address)
        here, there = IPv4Address("TCP", source, self._port), IPv4Address("TCP", host, port)
        far = listener.factory.buildProtocol(here)
        ours = End(self, process, here, there)
        theirs = End(self, listener.process, there, here)
        ours.far_end, theirs.far_end = theirs, ours
        if far is None:
            self.forget(theirs)
            theirs.gone = True
            near = attempt.made(ours)
            if near is not None:
                ours.attach(near)
                ours.drop_connection(ConnectionDone())
            return
        near = attempt.made(ours)
        if near is None:
            self.forget(ours)
            self.forget(theirs)
            return
        theirs.attach(far)
        if not ours.gone:
            ours.attach(near)
        if buggify("network: a reader stalls"):
            self.world.weather.choice((ours, theirs)).stall(STALLS_S)

    def latency(self, first: str, second: str) -> float:
        """Return the current latency between two machines, in seconds."""
        # varied, so that connections overtake each other on one machine as well
        if first == second:
            return LOOPBACK_S * (1.0 + 3.0 * self.world.weather.random())
        route = self.routes.get((first, second)) or self.routes.get((second, first))
        if route is None:
            return 0.03
        return route.least_s + self.world.weather.random() * route.varies_s

    def loses(self, first: Any, second: Any) -> bool:
        """Return whether packets between the two processes are being lost."""
        return first.machine != second.machine and not self.silent.isdisjoint(
            (first.machine, second.machine)
        )

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def forget(self, end: End) -> None:
        """Remove a closed end."""
        self.ends.pop(end.number, None)
        end.process.ends.pop(end.number, None)

    def cut(self, machine: str) -> int:
        """Reset all connections between this machine and others; return how many there were."""
        ends = [
            end
            for end in list(self.ends.values())
            if end.process.machine == machine and end.far_end.process.machine != machine
        ]
        for end in ends:
            end.reset()
        return len(ends)


@implementer(IListeningPort)
class Port:
    """A listening port: the IListeningPort that ``listenTCP`` returns."""

    def __init__(self, network: Network, listener: Listener) -> None:
        self._network, self._listener = network, listener
        listener.factory.doStart()

    def getHost(self) -> IPv4Address:
        return self._listener.address

    def startListening(self) -> None:
        """Do nothing: the port listens from its creation."""

    def stopListening(self) -> Deferred[None]:
        """Accept no new connections; existing connections remain."""
        self._network.close(self._listener)
        self._listener.factory.doStop()
        return succeed(None)


@implementer(IConnector)
class Connector:
    """A connection attempt: the IConnector that ``connectTCP`` returns."""

    def __init__(self, process: Any, factory: Any, timeout: float, source: str, to: Any) -> None:
        self.process, self.factory, self.source, self._to = process, factory, source, to
        self.over = False
        self._end: End | None = None
        self._timer = process.callLater(timeout, lambda: self.failed(TimeoutError()))

    def getDestination(self) -> Any:
        return self._to

    def disconnect(self) -> None:
        if self._end is not None:
            self._end.loseConnection()
        else:
            self.stopConnecting()

    def connect(self) -> None:
        """Do nothing: the attempt begins at its creation."""

    def stopConnecting(self) -> None:
        self.failed(ConnectionAborted())

    def failed(self, why: Exception) -> None:
        """Notify the factory, once, that the connection failed."""
        if not self.over:
            self._decided()
            self.factory.clientConnectionFailed(self, Failure(why))
            self.factory.doStop()

    def made(self, end: End) -> Any:
        """Return the protocol of this end of the new connection."""
        self._decided()
        self._end = end
        return self.factory.buildProtocol(end.peer)

    def _decided(self) -> None:
        self.over = True
        if self._timer.active():
            self._timer.cancel()
