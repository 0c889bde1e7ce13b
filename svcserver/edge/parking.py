"""Requests that wait while their upstream restarts, instead of being refused.

An upstream that took connections before and now refuses them is taken to restart, for
``RESTARTS`` times as long as a request may wait. After that it is down.
"""

from __future__ import annotations

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
LOOK_S = 0.1  # between two looks whether it is back
LOOK_PATIENCE_S = 1.0
AT_ONCE = 64  # requests that go on in one turn of the reactor
MOST = 1024  # requests
MOST_BYTES = 16 * 1024 * 1024  # of their bodies, as far as they can be in memory meanwhile
RETRY_AFTER_S = 2
NETWORK_BITS = 48  # of an IPv6 address: the widest network that one customer has


@frozen
class _Place:
    """A request that waits for its upstream to come back."""

    until: float
    size: int
    network: str


@define
class _Network:
    """The waiting requests of one network, the newest last, and their bytes."""

    places: dict[Deferred[None], None] = field(factory=dict)
    bytes: int = 0


@define(eq=False)
class Parking:
    """The waiting requests of one service.

    When there is no room for all, the newest of the network that takes most of it is refused.

    ``reach()`` tries one connection to it: a Deferred that fires, or fails with Unreachable.
    """

    clock: IReactorTime
    name: str
    reach: Callable[[], Deferred[Any]]
    park_s: float = PARK_S  # how long one waits, then it gets 503 with Retry-After
    most: int = MOST
    most_bytes: int = MOST_BYTES
    _parked: dict[Deferred[None], _Place] = field(factory=dict, init=False)
    _networks: dict[str, _Network] = field(factory=dict, init=False)
    _bytes: int = field(default=0, init=False)
    _reached: bool = field(default=False, init=False)  # ever
    _away_since: float | None = field(default=None, init=False)
    _next: Any = field(default=None, init=False)  # the next look
    _asking: Deferred[Any] | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self._parked)

    def reached(self) -> None:
        """A connection was made: whoever waits goes on."""
        self._reached = True
        if self._away_since is not None:
            away, self._away_since = self.clock.seconds() - self._away_since, None
            log.info(
                "{name} is back after {away:.1f} s; {waiting} requests waited for it",
                name=self.name,
                away=away,
                waiting=len(self._parked),
            )
        self._look_in(0)

    def lost(self) -> None:
        """It is about to end: connect no more until the next look."""
        if self._reached and self._away_since is None:
            self._away_since = self.clock.seconds()
            log.info("{name} restarts or has ended; requests wait for it", name=self.name)

    @property
    def away(self) -> bool:
        """Whether it restarts, so that only ``reach`` should connect."""
        since = self._away_since
        return since is not None and self.clock.seconds() - since < self.park_s * RESTARTS

    def wait(
        self, why: Unreachable, size: int, since: float | None = None, peer: str = ""
    ) -> Deferred[None]:
        """Fires when it is worth trying again; cancel it when the client has gone.

        ``why`` it cannot be reached is the failure where it does not restart. ``size``: bytes of
        the request that may come meanwhile; ``since`` when the request was first parked; ``peer``
        the client's address.
        """
        now = self.clock.seconds()
        self.lost()
        if not self.away:
            return fail(why)
        until = (now if since is None else since) + self.park_s
        if until <= now:
            return fail(self._refusal())
        place: Deferred[None] = Deferred(self._leave)
        network = network_of(peer, NETWORK_BITS)
        self._parked[place] = _Place(until, size, network)
        mine = self._networks.setdefault(network, _Network())
        mine.places[place] = None
        mine.bytes += size
        self._bytes += size
        self._make_room(network)
        self._look_in(LOOK_S)
        return place

    def close(self) -> None:
        """Refuse all who wait, and look no more."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()
        for place in list(self._parked):
            self._refuse(place)

    def _make_room(self, newcomer: str) -> None:
        while len(self._parked) > self.most or self._bytes > self.most_bytes:
            largest = max(self._networks, key=lambda one: (self._share(one), one == newcomer))
            self._refuse(next(reversed(self._networks[largest].places)))

    def _share(self, network: str) -> float:
        held = self._networks[network]
        return max(len(held.places) / self.most, held.bytes / self.most_bytes)

    def _refuse(self, place: Deferred[None]) -> None:
        self._leave(place)
        place.errback(self._refusal())

    def _leave(self, place: Deferred[None]) -> None:
        left = self._parked.pop(place, None)
        if left is None:
            return
        self._bytes -= left.size
        held = self._networks[left.network]
        del held.places[place]
        held.bytes -= left.size
        if not held.places:
            del self._networks[left.network]

    @staticmethod
    def _refusal() -> Unreachable:
        return Unreachable(503, "upstream_restarting", RETRY_AFTER_S)

    def _look_in(self, seconds: float) -> None:
        if not self._parked:
            return
        if self._next is not None and self._next.getTime() > self.clock.seconds() + seconds:
            self._next.cancel()
            self._next = None
        if self._next is None:
            self._next = self.clock.callLater(seconds, self._look)

    def _look(self) -> None:
        self._next = None
        if self._away_since is None:
            for place in list(self._parked)[:AT_ONCE]:
                self._leave(place)
                place.callback(None)
        else:
            self._refuse_late()
            if self._asking is None and self._parked:
                asking = self.reach().addTimeout(LOOK_PATIENCE_S, self.clock)
                self._asking = asking
                asking.addCallbacks(self._is_back, lambda _: None).addBoth(self._asked)
        self._look_in(LOOK_S if self._away_since is not None else 0)

    def _is_back(self, _: object) -> None:
        self.reached()

    def _asked(self, _: object) -> None:
        self._asking = None

    def _refuse_late(self) -> None:
        now = self.clock.seconds()
        for place, found in list(self._parked.items()):
            if found.until <= now:
                self._refuse(place)
