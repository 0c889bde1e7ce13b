"""What the metagame's ``/metrics`` on METRICS_PORT shows, by metric name."""

from __future__ import annotations

from attrs import define, field

from svcserver.board.waiting import unwaited
from svcserver.kernel.counters import Figure
from svcserver.metagame.owner.health.rules import Health
from svcserver.metagame.play.presence.feature import Online


@define
class PlayersOnline:
    """How many; of the scrape before, where live state is kept by an engine elsewhere."""

    online: Online
    _count: int = field(default=0, init=False)

    def __call__(self) -> float:
        """The newest count known; asks for the next."""
        unwaited(self.online.count().addCallback(self._learn))
        return self._count

    def _learn(self, count: int) -> None:
        self._count = count


def metric_figures(online: Online, health: Health | None) -> dict[str, Figure]:
    """Online players, and with BACKEND_HEALTH=1 requests and event-loop delays."""
    known = {
        "svc_metagame_players_online": Figure(
            "Players heard in the last 90 seconds.", PlayersOnline(online)
        )
    }
    return known | _health(health) if health is not None else known


def _health(health: Health) -> dict[str, Figure]:
    seen = health.requests.since_start
    return {
        "svc_metagame_requests_total": Figure(
            "Requests answered.", lambda: seen.completed, counts=True
        ),
        "svc_metagame_client_errors_total": Figure(
            "Requests answered with a 4xx status.", lambda: seen.client_errors, counts=True
        ),
        "svc_metagame_server_errors_total": Figure(
            "Requests answered with a 5xx status.", lambda: seen.server_errors, counts=True
        ),
        "svc_metagame_aborted_total": Figure(
            "Requests whose client left before the reply.", lambda: seen.aborted, counts=True
        ),
        "svc_metagame_event_loop_p95_ms": Figure(
            "95th percentile of a 20 ms timer in the last minute.", lambda: _p95(health)
        ),
    }


def _p95(health: Health) -> float:
    report = health.loop.report()
    return 0.0 if report is None else report.p95
