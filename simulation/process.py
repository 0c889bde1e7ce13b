"""A process of the simulated host: a reactor for its code, which can die and come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet import defer
from twisted.internet.interfaces import (
    IHostResolution,
    IReactorCore,
    IReactorFromThreads,
    IReactorPluggableNameResolver,
    IReactorTCP,
    IReactorTime,
)
from twisted.logger import Logger
from zope.interface import implementer

from simulation.clock import Timer, World
from simulation.ends import End
from simulation.network import LOOPBACK, Connector, Listener, Network, Port

log = Logger()


@implementer(IHostResolution)
@define
class _Resolution:
    """A name that was resolved at once."""

    name: str

    def cancel(self) -> None:
        """Nothing to do: the name was resolved at once."""


class _Resolver:
    """Addresses are what they say; other names are this machine."""

    def resolveHostName(
        self,
        receiver: Any,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Any = None,
        transportSemantics: str = "TCP",
    ) -> Any:
        """Tell the receiver its one address at once."""
        from twisted.internet.address import IPv4Address

        resolution = _Resolution(hostName)
        receiver.resolutionBegan(resolution)
        receiver.addressResolved(IPv4Address("TCP", hostName, portNumber))
        receiver.resolutionComplete()
        return resolution


@implementer(
    IReactorTime, IReactorTCP, IReactorCore, IReactorFromThreads, IReactorPluggableNameResolver
)
@define(eq=False, slots=False)
class Process:
    """The reactor of one program on one machine. ``die`` ends it as a power cut would."""

    world: World
    network: Network
    name: str
    machine: str = "host"
    address: str = LOOPBACK  # public, of its machine
    dead: bool = field(default=False, init=False)
    ends: dict[int, End] = field(factory=dict, init=False)
    listening: dict[int, Listener] = field(factory=dict, init=False)
    nameResolver: Any = field(factory=_Resolver, init=False)
    running: bool = True
    frozen_until: float = 0.0
    program: Any = None  # the services that run in it

    # -- time ------------------------------------------------------------------

    def seconds(self) -> float:
        """The simulation's time, in epoch seconds."""
        return self.world.now

    def callLater(self, delay: float, callable: Callable[..., Any], *args: Any, **kw: Any) -> Timer:
        """Call it, unless the process has died by then."""
        world = self.world
        timer = Timer(
            world, world.now + delay if delay > 0 else world.now, callable, self, args, kw
        )
        world.queue(timer)
        return timer

    def getDelayedCalls(self) -> list[Timer]:
        """None: only tests of Twisted look."""
        return []

    def callFromThread(self, callable: Callable[..., Any], *args: Any, **kw: Any) -> None:
        """There are no threads: call it in the next turn."""
        self.callLater(0, callable, *args, **kw)

    def callInThread(self, callable: Callable[..., Any], *args: Any, **kw: Any) -> None:
        """There are no threads: call it in the next turn."""
        self.callLater(0, callable, *args, **kw)

    def guard(self, call: Callable[..., Any], *args: Any, **kw: Any) -> None:
        """Call it as a reactor does: what it raises is logged and ends nothing."""
        try:
            call(*args, **kw)
        except Exception:
            log.failure("an event of {process} could not be handled", process=self.name)

    # -- connections -----------------------------------------------------------

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Port:
        """Listen on the simulated network."""
        return self.network.listen(self, port, factory, interface)

    def connectTCP(
        self, host: str, port: int, factory: Any, timeout: float = 30, bindAddress: Any = None
    ) -> Connector:
        """Connect over the simulated network."""
        from twisted.internet.address import IPv4Address

        source = bindAddress[0] if bindAddress else ""
        attempt = Connector(self, factory, timeout, source, IPv4Address("TCP", host, port))
        factory.doStart()
        factory.startedConnecting(attempt)
        self.network.connect(self, host, port, attempt)
        return attempt

    # -- the rest of a reactor ---------------------------------------------------

    def addSystemEventTrigger(self, *_: Any, **__: Any) -> None:
        """Nothing to do: a simulation ends without a shutdown."""

    def removeSystemEventTrigger(self, *_: Any) -> None:
        """Nothing to do, since none is kept."""

    def installNameResolver(self, resolver: Any) -> Any:
        before, self.nameResolver = self.nameResolver, resolver
        return before

    def resolve(self, name: str, timeout: Any = None) -> Any:
        return defer.succeed(name)

    def run(self) -> None:
        """Nothing to do: the world runs all processes."""

    def stop(self) -> None:
        """A part asks for the end of its process."""
        self.die()

    def crash(self) -> None:
        """Die at once, as ``stop`` does here."""
        self.die()

    def iterate(self, delay: float = 0) -> None:
        """Nothing to do: the world runs all processes."""

    def fireSystemEvent(self, eventType: str) -> None:
        """Nothing to do: no trigger is kept."""

    def callWhenRunning(self, callable: Callable[..., Any], *args: Any, **kw: Any) -> None:
        """Call it in the next turn: a process runs from its start."""
        self.callLater(0, callable, *args, **kw)

    # -- death -------------------------------------------------------------------

    def freeze(self, seconds: float) -> None:
        """Stand still for so long: no timer fires, nothing is read."""
        self.frozen_until = max(self.frozen_until, self.world.now + seconds)
        self.world.at(self.frozen_until, self._thaw)

    def _thaw(self) -> None:
        for end in list(self.ends.values()):
            end.read_on()

    def vanish(self) -> None:
        """End as its machine does that loses its power: nobody elsewhere is told."""
        self.network.off.add(self.machine)
        for end in list(self.ends.values()):
            if end.other.process.machine != self.machine:
                end.vanish()
        self.die()

    def release(self) -> None:
        """Let go of the program of a dead process."""
        self.program = None

    def die(self) -> None:
        """End at once: no timer fires, no protocol is told; the other ends hear a reset."""
        self.dead = True
        self.running = False
        self.world.buried += self, *self.ends.values(), *self.listening.values()
        for listener in list(self.listening.values()):
            self.network.close(listener)
        for end in list(self.ends.values()):
            end.reset()


__all__ = ["Process"]
