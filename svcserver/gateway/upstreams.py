"""The gateway's upstreams: a pool for each process, and who watches over them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import field, frozen
from twisted.application.service import MultiService
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint

from svcserver.edge.checkup import Checkup
from svcserver.edge.parking import PARK_S, Parking
from svcserver.edge.sentinel import Sentinel
from svcserver.edge.spread import Spread, members_of
from svcserver.edge.upstream import Pool, plain
from svcserver.gateway.policy import Route
from svcserver.kernel.local_urls import Address


@frozen(eq=False)
class Upstreams:
    """What ``Gateway`` forwards to; ``watch`` is started and stopped with the listener."""

    by_route: Mapping[Route, Any]
    pools: Sequence[Pool]
    parkings: Sequence[Parking]
    watch: MultiService = field(factory=MultiService)

    def close(self) -> None:
        """Refuse who waits, and close every connection."""
        for parking in self.parkings:
            parking.close()
        for pool in self.pools:
            pool.close()


def make_upstreams(
    reactor: Any, addresses: Mapping[Route, Sequence[Address]], park_s: float = PARK_S
) -> Upstreams:
    """A pool for each address, with parking, and a sentinel where connections are kept."""
    by_route: dict[Route, Any] = {}
    pools: list[Pool] = []
    parkings: list[Parking] = []
    watch = MultiService()
    for route, these in addresses.items():
        mine = [Pool(reactor, plain(reactor, one.host, one.port)) for one in these]
        parking = Parking(reactor, f"the {_WORDS[route]}", _reach(mine), park_s)
        for pool in mine:
            pool.parking = parking
        pools += mine
        parkings.append(parking)
        lost: list[Callable[[], None]] = [_ending(pool) for pool in mine]
        if len(mine) == 1:
            by_route[route] = mine[0]
        else:
            spread = by_route[route] = Spread(reactor, members_of(mine), parking)
            lost = [_out(spread, number) for number in range(len(mine))]
            if route is Route.METAGAME:
                Checkup(reactor, spread).setServiceParent(watch)
        if route is not Route.WS:  # its connections are never idle: each becomes a tunnel
            for address, tell in zip(these, lost, strict=True):
                Sentinel(reactor, _connect(reactor, address), tell).setServiceParent(watch)
    return Upstreams(by_route, pools, parkings, watch)


_WORDS = {Route.METAGAME: "metagame", Route.CONTENT: "content server", Route.WS: "chat"}


def _ending(pool: Pool) -> Callable[[], None]:
    """What a sentinel calls where there is one process only."""

    def lost() -> None:
        pool.drop_idle()
        if pool.parking is not None:
            pool.parking.lost()

    return lost


def _out(spread: Spread, number: int) -> Callable[[], None]:
    return lambda: spread.out(spread.members[number])


def _reach(pools: Sequence[Pool]) -> Callable[[], Deferred[Any]]:
    """Try one of the processes after the other, a look each."""
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
