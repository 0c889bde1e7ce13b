"""Alerts on the dashboard: shapes, acts and routes. Direct callers only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, ClassVar, TypedDict

from attrs import define, field, frozen
from sqlalchemy import Connection

from svcserver.kernel import alert_channels
from svcserver.kernel.alert_channels import AlertChannel, AlertChannels, is_name
from svcserver.kernel.refusals import Conflict, Missing, Unavailable
from svcserver.kernel.roles import Role
from svcserver.kernel.shapes import Moment, pascal_case, spelled, text_where
from svcserver.kernel.times import iso
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.accounts.audit import Act, Entry, Trace
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.once import Again
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer


@spelled(pascal_case)
@frozen
class TrialWish:
    """The name of the channel that is to be tried."""

    name: Annotated[str, text_where(is_name, "a channel's name")]
    reason: Reason = ""


class AskedReply(TypedDict):
    """The test is under way; how it went is shown with the channel."""

    asked: bool


class ToldReply(TypedDict):
    """The last alert through a channel; ``why`` it did not arrive, null where it did."""

    at: Moment
    title: str
    why: str | None


class ChannelReply(TypedDict):
    """A way to tell somebody; ``about`` empty: everything, ``quiet`` like 23:00-07:00 or null."""

    name: str
    form: str
    about: list[str]
    quiet: str | None
    last: ToldReply | None


class AlertsReply(TypedDict):
    """Who is told when something is wrong; ``on`` is false where nobody sends alerts.

    ``wrong`` says of files of channels why they are none.
    """

    on: bool
    channels: list[ChannelReply]
    wrong: list[str]


ASKED: AskedReply = {"asked": True}


def show(found: AlertChannels | None) -> AlertsReply:
    """The reply with all channels."""
    if found is None:
        return {"on": False, "channels": [], "wrong": []}
    return {"on": True, "channels": [_channel(one) for one in found.all], "wrong": [*found.wrong]}


def _channel(one: AlertChannel) -> ChannelReply:
    last: ToldReply | None = None
    if one.last is not None:
        last = {"at": iso(one.last.at), "title": one.last.title, "why": one.last.why or None}
    return {
        "name": one.name,
        "form": one.form,
        "about": [*one.about],
        "quiet": one.quiet or None,
        "last": last,
    }


NOBODY = (
    "nobody sends alerts here: neither svc-stack nor svc-watch runs; svcctl alerts test NAME does"
)


@define(eq=False)
class AlertActs:
    """Alerts for the owner's page; ``folder`` is where services run, and leave each other word."""

    record: Callable[[Entry, Act[None]], Awaitable[None]]  # leaves a row in the audit log
    wall_clock: Callable[[], float]
    folder: Path = field(factory=Path.cwd)

    def channels(self) -> AlertChannels | None:
        """Who is told; None where nobody sends alerts."""
        return alert_channels.read(self.folder, self.wall_clock())

    async def test(self, by: str, name: str, reason: str = "") -> None:
        """Let a test be sent through the channel of that name; raises Conflict, Missing."""

        def act(_: Connection, __: Trace) -> None:
            found = self.channels()
            if found is None:
                raise Conflict(NOBODY, code="no_watcher")
            if name not in {one.name for one in found.all}:
                raise Missing("there is no such channel", code="not_found")
            try:  # in the transaction, so that its row says what came of it; twice does no harm
                alert_channels.ask(self.folder, name, self.wall_clock())
            except OSError as why:
                raise Unavailable(f"nobody can be asked: {why.strerror}", code="disk") from why

        await self.record(Entry(by, "test alerts", name, reason), act)


@frozen
class AlertRoutes:
    """Read who is told when something is wrong, and try a channel."""

    routes: ClassVar[Routes] = Routes(worded, access=Access.ADMIN_KEY, again=Again.NEVER)
    acts: AlertActs

    @routes.row("GET", "/svc/api/DashboardAlerts", role=Role.HELPER, reply=AlertsReply, quiet=True)
    async def channels(self, call: Call) -> Answer:
        """The channels of alerts, without their addresses, and how the last alert of each went."""
        return Answer(200, show(self.acts.channels()), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardAlertTest",
        body=TrialWish,
        reply=AskedReply,
        bad_json=BAD_JSON,
    )
    async def test(self, call: Call[TrialWish]) -> Answer:
        """Send a test alert through one channel, in its quiet hours, too."""
        await self.acts.test(staff_of(call).name, call.body.name, call.body.reason)
        return Answer(200, ASKED, NO_STORE)
