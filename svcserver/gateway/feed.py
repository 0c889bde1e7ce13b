"""Reports players' addresses to the allowlist helpers, in the background.

Spec: 2 §4 Gateway, allowlist feed.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from attrs import define, field
from cachetools import LRUCache
from twisted.internet.defer import CancelledError, Deferred, DeferredList, DeferredSemaphore
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.edge import allowlist_client
from svcserver.edge.allowlist_client import FIRST_AGAIN_S, LAST_AGAIN_S
from svcserver.gateway.limits import MAX_KEYS
from svcserver.kernel.counters import Counters
from svcserver.kernel.networks import network_of
from svcserver.kernel.secrets import Secret
from svcserver.kernel.throttle import Throttle

log = Logger()

MAX_UNDER_WAY = 256  # concurrent reports to one helper
MOST_WANTED = 2_048  # unfinished reports to one helper; others wait for a later request
NETWORK_WANTED = 8  # maximum number of unfinished reports for one IPv6 /64 network
TOO_MANY = 429
UNANSWERED = 502  # the status in the metrics for no answer or a late one
WANTED_S = 60.0  # a player sends something every 20 s, so a silent player has left
NETWORK_TOLD = 16  # reported addresses of one /64 that are cached; the oldest is dropped


@define(eq=False)
class _Report:
    """An unfinished report; ``last_active`` is when the player was last active."""

    last_active: float
    dropped: bool = False
    work: Deferred[None] | None = None

    def drop(self) -> None:
        """Stop reporting; cancel the request in progress, which may then fail with any error."""
        self.dropped = True
        if self.work is not None:
            self.work.cancel()


@define(eq=False, slots=False)
class AllowlistFeed:
    """The feed that reports players' addresses to the allowlist helpers.

    A reported address is reported again only after ``refresh_s`` seconds. A failed report is
    retried with back-off for as long as the player is active. Until a report succeeds, the game
    ports stay closed for that player.
    """

    http: Any  # treq's HTTPClient; StubTreq in tests
    clock: IReactorTime
    urls: Sequence[str]
    secret: Secret
    refresh_s: float
    counters: Counters = field(factory=Counters)
    _reported: LRUCache[tuple[str, str], LRUCache[str, float]] = field(
        factory=lambda: LRUCache(MAX_KEYS), init=False
    )
    _wanted: dict[tuple[str, str], _Report] = field(factory=dict, init=False)
    _near: Counter[tuple[str, str]] = field(factory=Counter, init=False)  # by helper and network
    _unfinished: Counter[str] = field(factory=Counter, init=False)  # by helper
    _turns: dict[str, DeferredSemaphore] = field(init=False)  # by helper
    _warning: Throttle = field(factory=Throttle, init=False)

    def __attrs_post_init__(self) -> None:
        self._turns = {url: DeferredSemaphore(MAX_UNDER_WAY) for url in self.urls}

    @property
    def waiting(self) -> int:
        """The number of unfinished reports."""
        return len(self._wanted)

    def report(self, address: str) -> None:
        """Report to the allowlist helpers that a player has authenticated from ``address``."""
        now = self.clock.seconds()
        network = network_of(address)
        for url in self.urls:
            key = (url, address)
            report = self._wanted.get(key)
            if report is not None:
                report.last_active = now
                continue
            reported = self._reported.get((url, network))
            last = None if reported is None else reported.get(address)
            if (last is None or now - last >= self.refresh_s) and not self._is_full(url, network):
                self._want(key, now)

    def _is_full(self, url: str, near: str) -> bool:
        """Return whether a helper has too many unfinished reports, in total or for one network."""
        return self._unfinished[url] >= MOST_WANTED or self._near[url, near] >= NETWORK_WANTED

    def _want(self, key: tuple[str, str], now: float) -> None:
        url, address = key
        near = url, network_of(address)
        report = self._wanted[key] = _Report(now)
        self._near[near] += 1
        self._unfinished[url] += 1

        def over(result: object) -> None:
            if isinstance(result, Failure):
                log.failure("a report to an allowlist helper failed unexpectedly", result)
            del self._wanted[key]
            self._unfinished[url] -= 1
            self._near[near] -= 1
            if not self._near[near]:
                del self._near[near]

        report.work = Deferred.fromCoroutine(self._insist(key, report))
        report.work.addBoth(over)

    def report_again(self, address: str) -> None:
        """Forget earlier reports of an address; the next sign-in from there is reported at once."""
        network = network_of(address)
        for url in self.urls:
            reported = self._reported.get((url, network))
            if reported is not None:
                reported.pop(address, None)
            report = self._wanted.get((url, address))
            if report is not None:
                report.drop()

    def _remember(self, url: str, address: str) -> None:
        reported = self._reported.setdefault((url, network_of(address)), LRUCache(NETWORK_TOLD))
        reported[address] = self.clock.seconds()

    async def _insist(self, key: tuple[str, str], report: _Report) -> None:
        """Repeat a report until it succeeds or is refused, or until its player is inactive."""
        wait_s = FIRST_AGAIN_S
        try:
            while await self._fails(*key):
                if report.dropped or self.clock.seconds() - report.last_active >= WANTED_S:
                    return
                await deferLater(self.clock, wait_s)
                wait_s = min(2 * wait_s, LAST_AGAIN_S)
        except CancelledError:
            log.debug("a report to an allowlist helper was cancelled")

    async def _fails(self, url: str, address: str) -> bool:
        """Send a report; return whether it failed and must be sent again.

        If too many reports are running, wait first.
        """
        async with self._turns[url]:
            return await self._post_address(url, address)

    async def _post_address(self, url: str, address: str) -> bool:
        began, status = self.clock.seconds(), UNANSWERED
        try:
            await allowlist_client.post(
                self.http, self.clock, f"{url}/allow", self.secret, {"ip": address}
            )
            self._remember(url, address)
            status = 200
        except CancelledError:
            raise
        except Exception as error:  # a failing helper must not affect a player
            status = (
                error.status if isinstance(error, allowlist_client.HelperRefused) else UNANSWERED
            )
            if self._warning.due("", self.clock.seconds()):
                log.warn(
                    "the allowlist helper at {url} failed: {kind} {why}",
                    url=url,
                    kind=type(error).__name__,
                    why=error,
                )
        if self.counters.time_request is not None:
            self.counters.time_request("allowlist", status, self.clock.seconds() - began)
        return status >= 500 or status == TOO_MANY

    def stop(self) -> Deferred[Any]:
        """Cancel the reports that are in progress."""
        reports = list(self._wanted.values())
        works = [report.work for report in reports if report.work is not None]
        for report in reports:
            report.drop()
        return DeferredList(works, consumeErrors=True)
