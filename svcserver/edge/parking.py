"""Requests that wait while their upstream restarts, instead of being refused.

If an upstream accepted connections before and now refuses them, the upstream counts as restarting.
After ``RESTARTS * park_s`` seconds, the upstream counts as down. A request may wait for ``park_s``
seconds.
"""

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.edge.verdicts import Unreachable
from svcserver.kernel.networks import network_of

log = Logger()

PARK_S = 5.0
RESTARTS = 3
CHECK_EVERY_S = 0.1  # seconds between two checks of the upstream
CHECK_TIMEOUT_S = 1.0
AT_ONCE = 64  # requests released in one turn of the reactor
MOST = 1024  # requests
MOST_BYTES = 16 * 1024 * 1024  # maximum body bytes of all waiting requests
RETRY_AFTER_S = 2
NETWORK_BITS = 48  # IPv6 prefix length: the largest network of one customer


@frozen
class _ParkedRequest:
    """A request that waits until its upstream accepts connections again."""

    until: float
    size: int
    network: str


@define
class _Network:
    """The waiting requests of one network, newest last, and their size in bytes."""

    places: dict[Deferred[None], None] = field(factory=dict)
    bytes: int = 0


@define(eq=False)
class Parking:
    """The waiting requests of one service.

    If more than ``most`` requests or ``most_bytes`` bytes wait, the newest request of one client
    network is refused: of the network that uses the largest part of either limit.

    ``reach()`` tries to connect to the upstream once. It returns a Deferred that fires on success
    or fails with Unreachable.
    """

    clock: IReactorTime
    name: str
    reach: Callable[[], Deferred[Any]]
    park_s: float = PARK_S  # how long a request waits before it gets 503 with Retry-After
    most: int = MOST
    most_bytes: int = MOST_BYTES
    _parked: dict[Deferred[None], _ParkedRequest] = field(factory=dict, init=False)
    _networks: dict[str, _Network] = field(factory=dict, init=False)
    _bytes: int = field(default=0, init=False)
    _reached: bool = field(default=False, init=False)  # at least once
    _away_since: float | None = field(default=None, init=False)
    _next: Any = field(default=None, init=False)  # the next check
    _checking: Deferred[Any] | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self._parked)

    def reached(self) -> None:
        """Release the waiting requests, because a connection to the upstream was made."""
        self._reached = True
        if self._away_since is not None:
            away, self._away_since = self.clock.seconds() - self._away_since, None
            log.info(
                "{name} is back after {away:.1f} s; {waiting} requests waited for it",
                name=self.name,
                away=away,
                waiting=len(self._parked),
            )
        self._check_in(0)

    def suspend(self) -> None:
        """Make no connection until the next check, because the upstream is about to end."""
        if self._reached and self._away_since is None:
            self._away_since = self.clock.seconds()
            log.info("{name} restarts or has ended; requests wait for it", name=self.name)

    @property
    def away(self) -> bool:
        """True while the upstream restarts; meanwhile, only ``reach`` should try to connect."""
        since = self._away_since
        return since is not None and self.clock.seconds() - since < self.park_s * RESTARTS

    def wait(
        self, error: Unreachable, size: int, since: float | None = None, peer: str = ""
    ) -> Deferred[None]:
        """Return a Deferred that fires when the request should be tried again.

        The caller cancels the Deferred if the client disconnects. The Deferred fails with ``error``
        if the upstream is not restarting, and with status 503 after ``park_s`` seconds. ``size`` is
        the number of body bytes that the client may send meanwhile. ``since`` is when the request
        first waited. ``peer`` is the client's address.
        """
        now = self.clock.seconds()
        self.suspend()
        if not self.away:
            return fail(error)
        until = (now if since is None else since) + self.park_s
        if until <= now:
            return fail(self._refusal())
        place: Deferred[None] = Deferred(self._leave)
        network = network_of(peer, NETWORK_BITS)
        self._parked[place] = _ParkedRequest(until, size, network)
        waiting = self._networks.setdefault(network, _Network())
        waiting.places[place] = None
        waiting.bytes += size
        self._bytes += size
        self._make_room(network)
        self._check_in(CHECK_EVERY_S)
        return place

    def close(self) -> None:
        """Refuse all waiting requests, and stop checking the upstream."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        checking, self._checking = self._checking, None
        if checking is not None:
            checking.cancel()
        for place in list(self._parked):
            self._refuse(place)

    def _make_room(self, newcomer: str) -> None:
        while len(self._parked) > self.most or self._bytes > self.most_bytes:
            largest = max(
                self._networks, key=lambda network: (self._share(network), network == newcomer)
            )
            self._refuse(next(reversed(self._networks[largest].places)))

    def _share(self, network: str) -> float:
        held = self._networks[network]
        return max(len(held.places) / self.most, held.bytes / self.most_bytes)

    def _refuse(self, place: Deferred[None]) -> None:
        self._leave(place)
        place.errback(self._refusal())

    def _leave(self, place: Deferred[None]) -> None:
        request = self._parked.pop(place, None)
        if request is None:
            return
        self._bytes -= request.size
        held = self._networks[request.network]
        del held.places[place]
        held.bytes -= request.size
        if not held.places:
            del self._networks[request.network]

    @staticmethod
    def _refusal() -> Unreachable:
        return Unreachable(503, "upstream_restarting", RETRY_AFTER_S)

    def _check_in(self, seconds: float) -> None:
        if not self._parked:
            return
        if self._next is not None and self._next.getTime() > self.clock.seconds() + seconds:
            self._next.cancel()
            self._next = None
        if self._next is None:
            self._next = self.clock.callLater(seconds, self._check)

    def _check(self) -> None:
        self._next = None
        if self._away_since is None:
            for place in list(self._parked)[:AT_ONCE]:
                self._leave(place)
                place.callback(None)
        else:
            self._refuse_late()
            if self._checking is None and self._parked:
                checking = self.reach().addTimeout(CHECK_TIMEOUT_S, self.clock)
                self._checking = checking
                checking.addCallbacks(self._is_back, lambda _: None).addBoth(self._checked)
        self._check_in(CHECK_EVERY_S if self._away_since is not None else 0)

    def _is_back(self, _: object) -> None:
        self.reached()

    def _checked(self, _: object) -> None:
        self._checking = None

    def _refuse_late(self) -> None:
        now = self.clock.seconds()
        for place, request in list(self._parked.items()):
            if request.until <= now:
                self._refuse(place)
