"""Closes the UDP game ports to players whose sessions have ended.

A game server accepts every player who can reach it. So after a ban or a kick, the allowlist helper
removes the player's network from the firewall rule, unless other players play from that network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import define, field
from cachetools import LRUCache
from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svcserver.edge import allowlist_client
from svcserver.kernel.ids import AccountId
from svcserver.kernel.secrets import Secret
from svcserver.metagame.settings import MetagameSettings
from svcserver.web.request import HttpRequest

log = Logger()

NEVER = float("-inf")
MAX_PLAYERS = 16_384
MAX_NETWORKS = 4  # networks per player; a further network replaces the oldest
MAX_UNDER_WAY = 256  # concurrent withdrawals
HERE_S = 120.0  # seconds; a player seen within this time still plays
LATE_S = 1.0  # seconds after sessions end in which no network is recorded
AGAIN_S = (0.2, 1.0, 3.0, 10.0)  # seconds to wait after each failed attempt
TWICE_S = allowlist_client.LATE_S  # seconds until the second withdrawal, in case a report is late


@define(eq=False)
class GamePorts:
    """The client for the allowlist helpers at ``urls``.

    ``network_of`` returns the network from which a player sent a request (``kernel.networks``).
    """

    http: Any
    clock: IReactorTime
    urls: Sequence[str]
    secret: Secret
    network_of: Callable[[HttpRequest], str]
    also_close: Callable[[str], object] | None = None  # gets each network to close
    _networks: LRUCache[AccountId, dict[str, float]] = field(
        factory=lambda: LRUCache(MAX_PLAYERS), init=False
    )
    _ended: LRUCache[AccountId, float] = field(factory=lambda: LRUCache(1024), init=False)
    _under_way: set[Deferred[None]] = field(factory=set, init=False)

    @classmethod
    def if_enabled(
        cls,
        settings: MetagameSettings,
        http: Any,
        clock: IReactorTime,
        network_of: Callable[[HttpRequest], str],
    ) -> GamePorts | None:
        """Return the client if ALLOWLIST_SECRET is set, else None."""
        if settings.allowlist_secret is None:
            return None
        urls = [address.url() for address in (settings.allowlist_url, *settings.allowlist_more)]
        return cls(http, clock, urls, settings.allowlist_secret, network_of)

    def note_request(self, account_id: AccountId, request: HttpRequest) -> None:
        """Record the network from which a player sent a request."""
        self.note_network(account_id, self.network_of(request))

    def note_network(self, account_id: AccountId, network: str) -> None:
        """Record a log-in or heartbeat from ``network``; an empty network means this machine."""
        now = self.clock.seconds()
        if not network or now - self._ended.get(account_id, NEVER) < LATE_S:
            return
        mine = self._networks.get(account_id)
        if mine is None:
            mine = self._networks[account_id] = {}
        mine.pop(network, None)
        mine[network] = now
        if len(mine) > MAX_NETWORKS:
            del mine[next(iter(mine))]

    def close(self, account_id: AccountId) -> None:
        """Close the game ports to the networks of a player whose sessions have ended."""
        now = self.clock.seconds()
        self._ended[account_id] = now
        for network in self._networks.pop(account_id, {}):
            if self._is_used(network, now - HERE_S):
                log.info(
                    "the game ports stay open for {network}, because others play from it",
                    network=network,
                )
            elif len(self._under_way) < MAX_UNDER_WAY:
                self._begin(network, now)
            else:
                log.error(
                    "the game ports for {network} stay open: {limit} earlier requests to close "
                    "ports are unfinished, and the metagame cannot have more than {limit}",
                    network=network,
                    limit=MAX_UNDER_WAY,
                )

    def _is_used(self, network: str, since: float) -> bool:
        return any(times.get(network, NEVER) >= since for times in self._networks.values())

    def _begin(self, network: str, now: float) -> None:
        if self.also_close is not None:
            self.also_close(network)
        work = Deferred.fromCoroutine(self._withdraw(network, now))
        if not work.called:
            self._under_way.add(work)
            work.addBoth(lambda _: self._under_way.discard(work))

    async def _withdraw(self, network: str, began: float) -> None:
        with _cut_short():
            for url in self.urls:
                await self._insist(url, network)
            await deferLater(self.clock, TWICE_S)
            if not self._is_used(network, began):
                for url in self.urls:
                    await self._insist(url, network)

    async def _insist(self, url: str, network: str) -> None:
        for wait_s in (*AGAIN_S, None):
            error = await self._request_removal(url, network)
            if error is None:
                return
            if wait_s is not None:
                await deferLater(self.clock, wait_s)
        log.error(
            "the allowlist helper at {url} did not close the game ports for {network}: {why}",
            url=url,
            network=network,
            why=error,
        )

    async def _request_removal(self, url: str, network: str) -> str | None:
        """Ask a helper to remove the network; return the error, or None on success."""
        order = {"network": network}
        try:
            await allowlist_client.post(
                self.http, self.clock, f"{url}/withdraw", self.secret, order
            )
        except CancelledError:
            raise
        except Exception as error:  # refused, cut off or timed out: retried
            return repr(error)
        return None

    def stop(self) -> Deferred[Any]:
        """Cancel all unfinished requests to the helpers."""
        works = list(self._under_way)
        for work in works:
            work.cancel()
        return DeferredList(works, consumeErrors=True)


@contextmanager
def _cut_short() -> Iterator[None]:
    try:
        yield
    except CancelledError:
        log.debug("closing game ports was cancelled")
