"""A simulated process that can be killed: the reactor that the process's code uses."""

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
    """The result of resolving a name, which needs no time."""

    name: str

    def cancel(self) -> None:
        """Do nothing: the name was resolved immediately."""


class _Resolver:
    """A resolver that returns every name unchanged, as an address of the simulated network."""

    def resolveHostName(
        self,
        receiver: Any,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Any = None,
        transportSemantics: str = "TCP",
    ) -> Any:
        """Pass the only address to the receiver immediately."""
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
    """The reactor of one program on one machine; ``die`` ends it abruptly."""

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
        """Return the simulation's time, in epoch seconds."""
        return self.world.now

    def callLater(self, delay: float, callable: Callable[..., Any], *args: Any, **kw: Any) -> Timer:
        """Call the function later, unless the process has died by then."""
        world = self.world
        timer = Timer(
            world, world.now + delay if delay > 0 else world.now, callable, self, args, kw
        )
        world.queue(timer)
        return timer

    def getDelayedCalls(self) -> list[Timer]:
        """Return an empty list: only Twisted's tests use this method."""
        return []

    def callFromThread(self, callable: Callable[..., Any], *args: Any, **kw: Any) -> None:
        """Call the function in the next iteration: there are no threads."""
        self.callLater(0, callable, *args, **kw)

    def callInThread(self, callable: Callable[..., Any], *args: Any, **kw: Any) -> None:
        """Call the function in the next iteration: there are no threads."""
        self.callLater(0, callable, *args, **kw)

    def guard(self, call: Callable[..., Any], *args: Any, **kw: Any) -> None:
        """Call the function as a reactor does: log exceptions, and continue."""
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
        """Do nothing: a simulated reactor has no shutdown events."""

    def removeSystemEventTrigger(self, *_: Any) -> None:
        """Do nothing: no trigger is stored."""

    def installNameResolver(self, resolver: Any) -> Any:
        before, self.nameResolver = self.nameResolver, resolver
        return before

    def resolve(self, name: str, timeout: Any = None) -> Any:
        return defer.succeed(name)

    def run(self) -> None:
        """Do nothing: the world runs all processes."""

    def stop(self) -> None:
        """End the process."""
        self.die()

    def crash(self) -> None:
        """End the process immediately, as ``stop`` does here."""
        self.die()

    def iterate(self, delay: float = 0) -> None:
        """Do nothing: the world runs all processes."""

    def fireSystemEvent(self, eventType: str) -> None:
        """Do nothing: no trigger is stored."""

    def callWhenRunning(self, callable: Callable[..., Any], *args: Any, **kw: Any) -> None:
        """Call the function in the next iteration: a process runs from its creation."""
        self.callLater(0, callable, *args, **kw)

    # -- death -------------------------------------------------------------------

    def freeze(self, seconds: float) -> None:
        """Freeze for ``seconds``: no timer fires, and nothing is read."""
        self.frozen_until = max(self.frozen_until, self.world.now + seconds)
        self.world.at(self.frozen_until, self._thaw)

    def _thaw(self) -> None:
        for end in list(self.ends.values()):
            end.read_on()

    def vanish(self) -> None:
        """Simulate a power loss of the machine: other machines are not notified."""
        self.network.off.add(self.machine)
        for end in list(self.ends.values()):
            if end.far_end.process.machine != self.machine:
                end.vanish()
        self.die()

    def release(self) -> None:
        """Release the reference to the program of a dead process."""
        self.program = None

    def die(self) -> None:
        """End immediately: timers and protocols are not called; the other ends get a reset."""
        self.dead = True
        self.running = False
        self.world.buried += self, *self.ends.values(), *self.listening.values()
        for listener in list(self.listening.values()):
            self.network.close(listener)
        for end in list(self.ends.values()):
            end.reset()


__all__ = ["Process"]
