"""The gateway's upstreams: a connection pool and a health check for each process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen
from twisted.application.service import MultiService, Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.edge.parking import PARK_S, Parking
from svcserver.edge.question import request_status
from svcserver.edge.spread import Spread, SpreadMember, members_of
from svcserver.edge.upstream import Pool, plain
from svcserver.gateway.policy import Route
from svcserver.kernel.every import Every
from svcserver.kernel.local_urls import Address

log = Logger()

# Health checks find processes that accept connections but hang. Only a process that owes answers
# and has sent nothing for ``SILENT_S`` is checked.
SILENT_S = 3.0
CHECKUP_PATIENCE_S = 2.0  # the timeout for the answer; any status is accepted
CHECK_EVERY_S = 1.0
QUESTION = b"HEAD /svc/api/ServerStatus HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n"


@define(eq=False, slots=False)
class Checkup(Service):
    """The health check of workers that send nothing although answers are due."""

    clock: IReactorTime
    spread: Spread
    _checking: dict[int, Deferred[Any]] = field(factory=dict, init=False)
    _rounds: Every = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._rounds = Every(self.clock, CHECK_EVERY_S, self.check, "the workers' health check")

    def startService(self) -> None:
        Service.startService(self)
        self._rounds.startService()

    def stopService(self) -> None:
        Service.stopService(self)
        self._rounds.stopService()
        for asking in list(self._checking.values()):
            asking.cancel()

    def check(self) -> None:
        """Check each worker that has been silent for too long or is marked as sick."""
        now = self.clock.seconds()
        for member in self.spread.members:
            silent = member.pool.silent_s(now)
            if member.number not in self._checking and (member.sick or silent >= SILENT_S):
                asking = self._checking[member.number] = request_status(
                    member.pool, QUESTION, self.clock, CHECKUP_PATIENCE_S
                )
                asking.addBoth(self._checked, member)

    def _checked(self, result: Any, member: SpreadMember) -> None:
        self._checking.pop(member.number, None)
        sick = isinstance(result, Failure)
        if sick != member.sick and self.running:
            member.sick = sick
            write = log.warn if sick else log.info
            word = "does not answer; other workers serve its players" if sick else "answers again"
            write("worker {number} {word}", number=member.number, word=word)
            if sick:
                member.pool.drop_idle()


# A sentinel is a connection without data, which shows immediately that its upstream ends.
# A service that stops closes such a connection first, and still answers on its other connections
# (``web/serving.py``). So the edge then closes its idle connections, and sends no request on a
# connection that is being closed: nobody would know whether the request was executed.
RENEW_S = 20.0  # shorter than any of our services keeps an unused connection
AGAIN_S = 0.25  # between two attempts
PATIENCE_S = 5.0


class SentinelConnection(Protocol):
    """A connection that carries no data; it exists to show when the upstream ends."""

    ended: Callable[[], None] | None = None

    def dataReceived(self, data: bytes) -> None:
        """Ignore the data: no request was sent."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.ended is not None:
            self.ended()


@define(eq=False, slots=False)
class Sentinel(Service):
    """The watcher of an upstream.

    It calls ``on_lost()`` when the upstream ends, and ``on_found()`` when the upstream starts.
    ``connect(factory)`` opens a connection, like the ``connect`` of an endpoint.
    """

    clock: IReactorTime
    connect: Callable[[Any], Deferred[Any]]
    on_lost: Callable[[], None]
    on_found: Callable[[], None] = lambda: None
    _held: Any = field(default=None, init=False)
    _next: Any = field(default=None, init=False)
    _opening: Deferred[Any] | None = field(default=None, init=False)

    def startService(self) -> None:
        Service.startService(self)
        self._open()

    def stopService(self) -> None:
        Service.stopService(self)
        if self._next is not None:
            self._next.cancel()
            self._next = None
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
        self._leave()

    def _open(self) -> None:
        self._next = None
        opening = self._opening = self.connect(Factory.forProtocol(SentinelConnection))
        opening.addTimeout(PATIENCE_S, self.clock)
        opening.addCallbacks(self._opened, self._failed)
        opening.addErrback(self._broken)

    def _opened(self, connection: SentinelConnection) -> None:
        self._opening = None
        before, self._held = self._held, connection
        connection.ended = self._ended
        _close(before)
        if before is None:
            self.on_found()
        self._open_in(RENEW_S)

    def _failed(self, failure: Failure) -> None:
        self._opening = None
        if not self.running or failure.check(CancelledError):
            return
        if self._held is not None:  # the port is closed, but its connections are still open
            self._leave()
            self.on_lost()
        self._open_in(AGAIN_S)

    def _broken(self, failure: Failure) -> None:
        log.failure("failed to watch a service behind the gateway", failure)
        self._open_in(RENEW_S)

    def _ended(self) -> None:
        self._held = None
        if not self.running:
            return
        self.on_lost()
        if self._opening is None:
            if self._next is not None:
                self._next.cancel()
            self._open_in(0)

    def _open_in(self, seconds: float) -> None:
        if self.running:
            self._next = self.clock.callLater(seconds, self._open)

    def _leave(self) -> None:
        held, self._held = self._held, None
        _close(held)


def _close(connection: SentinelConnection | None) -> None:
    if connection is not None:
        connection.ended = None
        transport: Any = connection.transport
        transport.abortConnection()


@frozen(eq=False)
class Upstreams:
    """The upstreams of ``Gateway``; the services in ``watch`` run while the gateway listens."""

    by_route: Mapping[Route, Any]
    pools: Sequence[Pool]
    parkings: Sequence[Parking]
    watch: MultiService = field(factory=MultiService)

    def close(self) -> None:
        """Refuse the waiting requests, and close every connection."""
        for parking in self.parkings:
            parking.close()
        for pool in self.pools:
            pool.close()


def make_upstreams(
    reactor: Any, addresses: Mapping[Route, Sequence[Address]], park_s: float = PARK_S
) -> Upstreams:
    """Return the upstreams: a connection pool for each address, and a sentinel for each pool.

    The upstreams of the WebSocket route have no sentinels.
    """
    by_route: dict[Route, Any] = {}
    pools: list[Pool] = []
    parkings: list[Parking] = []
    watch = MultiService()
    for route, route_addresses in addresses.items():
        route_pools = [
            Pool(reactor, plain(reactor, address.host, address.port)) for address in route_addresses
        ]
        parking = Parking(reactor, f"the {_WORDS[route]}", _reach(route_pools), park_s)
        for pool in route_pools:
            pool.parking = parking
        pools += route_pools
        parkings.append(parking)
        on_lost: list[Callable[[], None]] = [_ending(pool) for pool in route_pools]
        if len(route_pools) == 1:
            by_route[route] = route_pools[0]
        else:
            spread = by_route[route] = Spread(reactor, members_of(route_pools), parking)
            on_lost = [_out(spread, number) for number in range(len(route_pools))]
            if route is Route.METAGAME:
                Checkup(reactor, spread).setServiceParent(watch)
        if route is not Route.WS:  # these connections are never idle: each becomes a tunnel
            for address, callback in zip(route_addresses, on_lost, strict=True):
                Sentinel(reactor, _connect(reactor, address), callback).setServiceParent(watch)
    return Upstreams(by_route, pools, parkings, watch)


_WORDS = {Route.METAGAME: "metagame", Route.CONTENT: "content server", Route.WS: "chat"}


def _ending(pool: Pool) -> Callable[[], None]:
    """Return the function to call when an upstream's only process has ended."""

    def on_lost() -> None:
        pool.drop_idle()
        if pool.parking is not None:
            pool.parking.suspend()

    return on_lost


def _out(spread: Spread, number: int) -> Callable[[], None]:
    return lambda: spread.out(spread.members[number])


def _reach(pools: Sequence[Pool]) -> Callable[[], Deferred[Any]]:
    """Return a function that tries to connect to a process; each call tries the next process."""
    turn = itertools.cycle(pools)

    def reach() -> Deferred[Any]:
        pool = next(turn)
        opened: Deferred[Any] = pool.reach()
        return opened.addCallback(pool.give_back)

    return reach


def _connect(reactor: Any, address: Address) -> Callable[[Any], Deferred[Any]]:
    kind: Any = TCP6ClientEndpoint if ":" in address.host else TCP4ClientEndpoint
    endpoint = kind(reactor, address.host, address.port, timeout=5)
    return lambda factory: endpoint.connect(factory)
