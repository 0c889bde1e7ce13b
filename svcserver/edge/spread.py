"""The load balancer that chooses one of several processes that serve the same requests.

A request without a player's token goes to the less busy of two processes drawn at random. For a
player, a hash of the token puts the processes in order. The player's requests go to the first
process, or to the second if the first is down or much busier.

A process that refuses a connection is skipped for ``OUT_S`` seconds. The refused request goes to
another process at once, because no part of the request was sent yet.
"""

from __future__ import annotations

import random  # for the type; the numbers come from the kernel
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.edge.parking import Parking
from svcserver.edge.upstream import Pool, UpstreamConnection
from svcserver.edge.verdicts import Unreachable
from svcserver.kernel.system import generator, token_hex

log = Logger()

OUT_S = 1.0
BUSIER = 16  # skip a player's own process if it has this many more requests


@define(eq=False)
class SpreadMember:
    """A process to which a Spread sends requests; it is tried last until ``out_until``."""

    pool: Pool
    number: int
    out_until: float = 0.0
    sick: bool = False  # the process accepts connections but does not answer

    def usable(self, now: float) -> bool:
        return not self.sick and now >= self.out_until


def members_of(pools: Sequence[Pool]) -> list[SpreadMember]:
    """Return the members of a Spread: one for each pool, numbered from 0."""
    return [SpreadMember(pool, number) for number, pool in enumerate(pools)]


@define(eq=False)
class Spread:
    """An ``Upstream`` that distributes requests among several processes."""

    clock: IReactorTime
    members: list[SpreadMember]
    parking: Parking
    random: random.Random = field(factory=generator)  # not a secret
    # random for each process, so that no client can choose its worker
    _key: bytes = field(factory=lambda: bytes.fromhex(token_hex(16)), init=False, repr=False)

    def take(self, *, fresh: bool = False) -> UpstreamConnection | Deferred[UpstreamConnection]:
        return self._first(self._drawn(), fresh)

    def near(self, token: bytes) -> Near:
        """Return the upstream for the player with this token."""
        digest = blake2b(token, digest_size=8, key=self._key).digest()
        return Near(self, int.from_bytes(digest, "big"))

    def give_back(self, connection: UpstreamConnection) -> None:
        connection.pool.give_back(connection)

    def wait(
        self, error: Unreachable, size: int, since: float | None = None, peer: str = ""
    ) -> Deferred[None]:
        now = self.clock.seconds()
        if since is not None and now - since >= self.parking.park_s:
            return fail(error)  # all processes were tried, each until its timeout
        if any(member.usable(now) for member in self.members):
            return succeed(None)
        return self.parking.wait(error, size, since, peer)

    def take_near(
        self, key: int, *, fresh: bool
    ) -> UpstreamConnection | Deferred[UpstreamConnection]:
        """Return a connection to the first process that accepts one, in an order set by ``key``."""
        order = sorted(self.members, key=lambda member: hash((key, member.number)))
        return self._first(self._prefer_lighter(order), fresh)

    def out(self, member: SpreadMember) -> None:
        """Skip a process for a while, and close its idle connections."""
        member.out_until = self.clock.seconds() + OUT_S
        member.pool.drop_idle()

    def _prefer_lighter(self, order: list[SpreadMember]) -> list[SpreadMember]:
        now = self.clock.seconds()
        order.sort(key=lambda member: not member.usable(now))
        first, second = order[:2]
        if second.usable(now) and first.pool.in_flight > second.pool.in_flight + BUSIER:
            order[:2] = second, first
        return order

    def _drawn(self) -> list[SpreadMember]:
        now = self.clock.seconds()
        order = self.random.sample(self.members, len(self.members))
        order.sort(key=lambda member: not member.usable(now))
        first, second = order[:2]
        if second.usable(now) and second.pool.in_flight < first.pool.in_flight:
            order[:2] = second, first
        return order

    def _first(
        self, order: list[SpreadMember], fresh: bool
    ) -> UpstreamConnection | Deferred[UpstreamConnection]:
        """Return a connection to the first process in ``order`` that accepts one."""
        member, *rest = order
        connection = member.pool.take(fresh=fresh)
        if isinstance(connection, Deferred):
            connection.addErrback(self._next, member, rest)
        return connection

    def _next(self, failure: Failure, member: SpreadMember, rest: list[SpreadMember]) -> Any:
        failure.trap(Unreachable)
        self.out(member)
        if not rest:
            return failure
        log.debug("worker {number} accepts no connection; trying the next", number=member.number)
        return self._first(rest, fresh=False)


@frozen(eq=False)
class Near:
    """The upstream for one player; ``key`` determines which process is tried first."""

    spread: Spread
    key: int

    def take(self, *, fresh: bool = False) -> UpstreamConnection | Deferred[UpstreamConnection]:
        return self.spread.take_near(self.key, fresh=fresh)

    def give_back(self, connection: UpstreamConnection) -> None:
        connection.pool.give_back(connection)

    def wait(
        self, error: Unreachable, size: int, since: float | None = None, peer: str = ""
    ) -> Deferred[None]:
        return self.spread.wait(error, size, since, peer)
