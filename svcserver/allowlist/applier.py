"""The scheduler of firewall runs, which limits their rate and repeats failed runs.

Only one run is in progress at a time. The next run applies all changes that have arrived since the
previous run.
"""

from collections.abc import Awaitable, Callable

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.allowlist.programs import FirewallError

log = Logger()

FIRST_RETRY_S = 3.0
LAST_RETRY_S = 60.0

Ips = tuple[str, ...]


@frozen
class Applied:
    """The result of the last firewall run."""

    ok: bool
    ips: Ips
    at: float  # epoch seconds
    error: str = ""


@define(eq=False)
class Applier:
    """The scheduler that keeps the firewall open for the addresses of the last ``want`` call.

    ``run(ips)`` makes the firewall admit these addresses; ``wall_clock`` returns epoch seconds;
    ``on_applied`` is called with the result of every run.
    """

    clock: IReactorTime
    run: Callable[[Ips], Awaitable[None]]
    wall_clock: Callable[[], float]
    on_applied: Callable[[Applied], None]
    interval_s: float = 3.0
    last: Applied | None = field(default=None, init=False)
    _wanted: Ips | None = field(default=None, init=False)
    _holds: Ips | None = field(default=None, init=False)
    _running: bool = field(default=False, init=False)
    _checking: bool = field(default=False, init=False)
    _not_before: float = field(default=0.0, init=False)
    _urgent: bool = field(default=False, init=False)
    _retry_s: float = field(default=FIRST_RETRY_S, init=False)
    _timer: IDelayedCall | None = field(default=None, init=False)
    _idle: list[Deferred[None]] = field(factory=list, init=False)
    _stopped: bool = field(default=False, init=False)

    @property
    def pending(self) -> bool:
        """True if a change has not been applied yet."""
        return self._running or (self._wanted is not None and self._wanted != self._holds)

    def want(self, ips: Ips, *, at_once: bool = False) -> None:
        """Schedule a change, after which the firewall admits exactly these addresses.

        Unless ``at_once`` is true, changes are at least ``interval_s`` seconds apart.
        """
        self._wanted = ips
        if at_once:
            self._urgent = True
            if self._timer is not None and self._timer.active():
                self._timer.cancel()
        self._next()

    def check(self, holds: Callable[[Ips], Awaitable[bool]]) -> None:
        """Check with ``holds`` that the applied rule still exists; if not, apply the rule again."""
        if self._holds is None or self.pending or self._checking or self._stopped:
            return
        self._checking = True
        check = Deferred.fromCoroutine(self._check(holds, self._holds))
        check.addErrback(lambda why: log.failure("failed to check the firewall rule", why))

    async def _check(self, holds: Callable[[Ips], Awaitable[bool]], ips: Ips) -> None:
        there = True
        try:
            there = await holds(ips)
        except FirewallError as why:
            log.warn("the firewall rule cannot be checked: {why}", why=str(why))
        finally:
            self._checking = False
            if not there:
                self._holds = None
            self._rest()

    def stop(self) -> Deferred[None]:
        """Start no more runs; return a Deferred that fires when the current run has ended."""
        self._stopped = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        idle: Deferred[None] = Deferred()
        if self._running or self._checking:
            self._idle.append(idle)
        else:
            idle.callback(None)
        return idle

    def _next(self) -> None:
        due = self._timer is not None and self._timer.active()
        if self._stopped or self._running or self._checking or due or not self.pending:
            return
        wait = 0.0 if self._urgent else self._not_before - self.clock.seconds()
        if wait > 0:
            self._timer = self.clock.callLater(wait, self._begin)
        else:
            self._begin()

    def _begin(self) -> None:
        if self._stopped or self._checking or self._wanted is None or self._wanted == self._holds:
            return  # the change was undone in the meantime, or a check is running
        self._running, self._urgent, ips = True, False, self._wanted
        work = Deferred.fromCoroutine(self._work(ips))
        work.addBoth(self._ended, ips)
        work.addErrback(lambda why: log.failure("failed to record a firewall change", why))

    async def _work(self, ips: Ips) -> None:
        await self.run(ips)

    def _ended(self, result: object, ips: Ips) -> None:
        self._running = False
        error = ""
        if isinstance(result, Failure):
            error = result.getErrorMessage() or type(result.value).__name__
            if not result.check(FirewallError):
                log.failure("applying the firewall rule failed", result)
        self._holds = None if error else ips
        wait = self._retry_s if error else self.interval_s
        self._retry_s = min(self._retry_s * 2, LAST_RETRY_S) if error else FIRST_RETRY_S
        self._not_before = self.clock.seconds() + max(wait, self.interval_s)
        self.last = Applied(not error, ips, self.wall_clock(), error)
        try:
            self.on_applied(self.last)
        finally:
            self._rest()

    def _rest(self) -> None:
        """Fire the Deferreds that ``stop`` returned; if it was not called, start the next run."""
        waiting, self._idle = self._idle, []
        for idle in waiting:
            idle.callback(None)
        self._next()
