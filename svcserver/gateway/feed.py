"""Reports players' addresses to the allowlist helpers, in the background.

Spec: 2 §4 Gateway, allowlist feed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field
from cachetools import LRUCache
from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.edge import allowlist_client
from svcserver.gateway.limits import MAX_KEYS
from svcserver.kernel.networks import network_of
from svcserver.kernel.secrets import Secret
from svcserver.kernel.throttle import Throttle

log = Logger()

MAX_UNDER_WAY = 256  # reports at once; more are left to the next trigger
NETWORK_UNDER_WAY = 8  # of them, those of one IPv6 /64
NETWORK_TOLD = 16  # addresses of one /64 that are remembered as told; the oldest gives way


@define(eq=False, slots=False)
class Feed:
    """Reports an address at most once per ``refresh_s``, counted from a success."""

    http: Any  # treq's HTTPClient; StubTreq in tests
    clock: IReactorTime
    urls: Sequence[str]
    secret: Secret
    refresh_s: float
    _told: LRUCache[tuple[str, str], LRUCache[str, float]] = field(
        factory=lambda: LRUCache(MAX_KEYS), init=False
    )
    _under_way: dict[tuple[str, str], Deferred[None]] = field(factory=dict, init=False)
    _warning: Throttle = field(factory=Throttle, init=False)

    def heard(self, address: str) -> None:
        """Report ``address``, from which a player has authenticated."""
        now = self.clock.seconds()
        network = network_of(address)
        for url in self.urls:
            key = (url, address)
            told = self._told.get((url, network))
            last = None if told is None else told.get(address)
            if key in self._under_way or self._is_busy(url, network):
                continue
            if last is None or now - last >= self.refresh_s:
                work = self._under_way[key] = Deferred.fromCoroutine(self._tell(key))
                if work.called:
                    self._under_way.pop(key, None)

    def refused(self, address: str) -> None:
        """Report ``address`` anew next time: who played from there has been sent off.

        The metagame withdraws it then, and whoever signs in again must not wait for the period.
        """
        network = network_of(address)
        for url in self.urls:
            told = self._told.get((url, network))
            if told is not None:
                told.pop(address, None)

    def _is_busy(self, url: str, network: str) -> bool:
        """Whether too many reports are running, in all or for the address's network."""
        if len(self._under_way) >= MAX_UNDER_WAY:
            return True
        near = sum(one == url and network_of(peer) == network for one, peer in self._under_way)
        return near >= NETWORK_UNDER_WAY

    def _remember(self, url: str, address: str) -> None:
        told = self._told.setdefault((url, network_of(address)), LRUCache(NETWORK_TOLD))
        told[address] = self.clock.seconds()

    async def _tell(self, key: tuple[str, str]) -> None:
        url, address = key
        try:
            await allowlist_client.post(
                self.http, self.clock, f"{url}/allow", self.secret, {"ip": address}
            )
            self._remember(url, address)
        except CancelledError:
            log.debug("a report to an allowlist helper was cut short")
        except Exception as why:  # whatever goes wrong there must not matter to a player
            if self._warning.due("", self.clock.seconds()):
                log.warn(
                    "the allowlist helper at {url} does not answer as it should: {kind} {why}",
                    url=url,
                    kind=type(why).__name__,
                    why=why,
                )
        finally:
            self._under_way.pop(key, None)

    def stop(self) -> Deferred[Any]:
        """Cancel the reports to the allowlist helper that are under way."""
        works = list(self._under_way.values())
        for work in works:
            work.cancel()
        return DeferredList(works, consumeErrors=True)
