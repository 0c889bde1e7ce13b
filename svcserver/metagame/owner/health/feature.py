"""The health figures: reply shapes, collectors and the route."""

from collections.abc import Callable
from typing import Any, ClassVar, TypedDict

from attrs import define, field, frozen

from svcserver.board.waiting import log_failure
from svcserver.kernel.counters import Figure
from svcserver.kernel.every import Every
from svcserver.kernel.roles import Role
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.owner.health import rules
from svcserver.metagame.owner.memory import memory_mb
from svcserver.metagame.play.presence.feature import Online
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.front import FinishedRequest
from svcserver.web.routes import NO_STORE, Answer, bare


class RequestReply(TypedDict):
    """The request figures of the last minute."""

    windowSeconds: int
    completed: int
    clientErrors: int
    serverErrors: int
    aborted: int
    requestsPerSecond: float
    serverErrorPercent: float
    latencyP50UpperMs: int | str | None
    latencyP95UpperMs: int | str | None


class LoopReply(TypedDict):
    """The measured intervals of a 20 ms timer; long intervals show that the event loop is busy."""

    p50Ms: float
    p95Ms: float
    maxMs: float


class BansReply(TypedDict):
    """A placeholder with constant values: this route does not report bans."""

    supported: bool
    count: int | None


class BackendHealthReply(TypedDict):
    """This process's load.

    Memory is in MiB, or null if unknown; ``eventLoop`` is null before the first sample.
    """

    uptimeSeconds: int
    memoryMB: dict[str, float | None]
    requests: RequestReply
    eventLoop: LoopReply | None
    bans: BansReply


class BriefReply(TypedDict):
    """The health figures on the dashboard's overview page."""

    memoryMB: dict[str, int | None]
    requests: RequestReply
    eventLoop: LoopReply | None


def show_requests(counts: rules.Counts) -> RequestReply:
    """Return the request figures of the last minute."""
    failed = 100 * counts.server_errors / counts.completed if counts.completed else 0.0
    return {
        "windowSeconds": rules.WINDOW_S,
        "completed": counts.completed,
        "clientErrors": counts.client_errors,
        "serverErrors": counts.server_errors,
        "aborted": counts.aborted,
        "requestsPerSecond": round(counts.completed / rules.WINDOW_S, 3),
        "serverErrorPercent": round(failed, 1),
        "latencyP50UpperMs": rules.upper_bound(counts.latencies, 0.50),
        "latencyP95UpperMs": rules.upper_bound(counts.latencies, 0.95),
    }


def show_brief(health: rules.Health, rss_mb: float | None, now: float) -> BriefReply:
    """Return the current health figures; ``rss_mb`` is None if the memory use is unknown."""
    return {
        "memoryMB": {"rss": None if rss_mb is None else round(rss_mb)},
        "requests": show_requests(health.requests.last_minute(now)),
        "eventLoop": show_loop(health.loop.report()),
    }


def show_loop(loop: rules.LoopFigures | None) -> LoopReply | None:
    """Return the reply with the event loop's delays, or None if there are no samples."""
    if loop is None:
        return None
    return {"p50Ms": loop.p50, "p95Ms": loop.p95, "maxMs": loop.longest}


@frozen
class Counting:
    """An observer that counts requests, except requests to routes marked ``quiet``."""

    requests: rules.Requests
    wall_clock: Callable[[], float]

    def __call__(self, done: FinishedRequest) -> None:
        if done.row is not None and done.row.quiet:
            return
        if done.aborted:
            self.requests.note_aborted(self.wall_clock())
        else:
            self.requests.note(done.status, done.seconds, self.wall_clock())


@define
class Lateness:
    """A recorder of the intervals at which the reactor calls ``note``."""

    clock: Any
    delays: rules.LoopDelays
    _last: float | None = field(default=None, init=False)

    def note(self) -> None:
        now = self.clock.seconds()
        if self._last is not None:
            self.delays.note(now - self._last)
        self._last = now


def loop_watch(clock: Any, delays: rules.LoopDelays) -> Every:
    """Return the service that measures the event loop's delays every 20 ms."""
    late = Lateness(clock, delays)
    return Every(clock, rules.SAMPLE_S, late.note, "measuring the event loop", at_once=True)


@define
class PlayersOnline:
    """The number of players online, for callers that cannot wait.

    The board (the store of live state) may be on another server, so each call returns the number in
    the board's last reply. The call also requests the current number.
    """

    online: Online
    _count: int = field(default=0, init=False)

    def __call__(self) -> float:
        log_failure(self.online.count().addCallback(self._learn))
        return self._count

    def _learn(self, count: int) -> None:
        self._count = count


def metric_figures(online: Online, health: rules.Health | None) -> dict[str, Figure]:
    """Return the metrics: players online and, given ``health``, requests and event-loop delays."""
    known = {
        "svc_metagame_players_online": Figure(
            "Players seen in the last 90 seconds.", PlayersOnline(online)
        )
    }
    return known | _health(health) if health is not None else known


def _health(health: rules.Health) -> dict[str, Figure]:
    counts = health.requests.since_start
    return {
        "svc_metagame_requests_total": Figure(
            "Requests answered.", lambda: counts.completed, counts=True
        ),
        "svc_metagame_client_errors_total": Figure(
            "Requests answered with a 4xx status.", lambda: counts.client_errors, counts=True
        ),
        "svc_metagame_server_errors_total": Figure(
            "Requests answered with a 5xx status.", lambda: counts.server_errors, counts=True
        ),
        "svc_metagame_aborted_total": Figure(
            "Requests whose client left before the reply.", lambda: counts.aborted, counts=True
        ),
        "svc_metagame_event_loop_p95_ms": Figure(
            "95th percentile of a 20 ms timer in the last minute.", lambda: _p95(health)
        ),
    }


def _p95(health: rules.Health) -> float:
    report = health.loop.report()
    return 0.0 if report is None else report.p95


@frozen
class HealthRoutes:
    """The route ``BackendHealth``, which exists only with BACKEND_HEALTH=1."""

    routes: ClassVar[Routes] = Routes(bare)
    health: rules.Health
    reads: ReadLimit
    wall_clock: Callable[[], float]
    started_at: float

    @routes.row(
        "GET",
        "/svc/api/BackendHealth",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        when=lambda settings: settings.backend_health,
        reply=BackendHealthReply,
        quiet=True,
    )
    async def report(self, call: Call) -> Answer:
        """Show the server's load: requests, event loop, memory.

        The reply is 404 without BACKEND_HEALTH=1.
        """
        await self.reads.take(call.request.peer)
        now = self.wall_clock()
        reply: BackendHealthReply = {
            "uptimeSeconds": int(now - self.started_at),
            "memoryMB": memory_mb(),
            "requests": show_requests(self.health.requests.last_minute(now)),
            "eventLoop": show_loop(self.health.loop.report()),
            "bans": {"supported": False, "count": None},
        }
        return Answer(200, reply, NO_STORE)
