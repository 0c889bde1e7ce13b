"""``GET /svc/api/DashboardFigures``: weeks of figures for the dashboard and ``svcctl figures``."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.kernel.refusals import Malformed
from svcserver.kernel.roles import Role
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.owner.figures import wire
from svcserver.metagame.owner.figures.acts import Figures
from svcserver.metagame.owner.figures.rules import Range
from svcserver.metagame.replies import worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer


@frozen
class FigureRoutes:
    """The route of the figures over time."""

    routes: ClassVar[Routes] = Routes(worded)
    figures: Figures
    reads: ReadLimit

    @routes.row(
        "GET",
        "/svc/api/DashboardFigures",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        when=lambda settings: settings.backend_health,
        reply=wire.FiguresOverTime,
        query={"range": Range},
        quiet=True,
    )
    async def over_time(self, call: Call) -> Answer:
        """Figures over an hour or day (by minutes), week (by hours) or eight weeks (by days)."""
        await self.reads.take(call.request.peer)
        try:
            asked = Range(call.request.argument("range") or Range.HOUR)
        except ValueError:
            raise Malformed("range is hour, day, week or weeks", code="bad_request") from None
        found = await self.figures.read(asked)
        return Answer(200, wire.show(asked, found, self.figures.wall_clock()), NO_STORE)
