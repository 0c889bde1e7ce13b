"""The routes of alerts, for the dashboard. Direct callers only."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.once import Again
from svcserver.metagame.owner.alerts import wire
from svcserver.metagame.owner.alerts.acts import AlertActs
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer


@frozen
class AlertRoutes:
    """Read who is told when something is wrong, and try a channel."""

    routes: ClassVar[Routes] = Routes(worded, access=Access.ADMIN_KEY, again=Again.NEVER)
    acts: AlertActs

    @routes.row(
        "GET", "/svc/api/DashboardAlerts", role=Role.HELPER, reply=wire.AlertsReply, quiet=True
    )
    async def channels(self, call: Call) -> Answer:
        """The channels of alerts, without their addresses, and how the last alert of each went."""
        return Answer(200, wire.show(self.acts.channels()), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardAlertTest",
        body=wire.TrialWish,
        reply=wire.AskedReply,
        bad_json=BAD_JSON,
    )
    async def test(self, call: Call[wire.TrialWish]) -> Answer:
        """Send a test alert through one channel, in its quiet hours, too."""
        await self.acts.test(staff_of(call).name, call.body.name, call.body.reason)
        return Answer(200, wire.ASKED, NO_STORE)
