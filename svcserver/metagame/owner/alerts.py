"""The dashboard's routes about alerts, for direct callers only (not through a proxy)."""

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
from svcserver.metagame.accounts.audit import Act, AuditEntry, Trace
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.once import Again
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer


@spelled(pascal_case)
@frozen
class TrialWish:
    """The name of the alert channel to test."""

    name: Annotated[str, text_where(is_name, "a channel's name")]
    reason: Reason = ""


class AskedReply(TypedDict):
    """The reply to a request for a test alert; later, the list of channels shows the result."""

    asked: bool


class ToldReply(TypedDict):
    """The last alert sent through a channel; ``why`` is the delivery error, null on success."""

    at: Moment
    title: str
    why: str | None


class ChannelReply(TypedDict):
    """An alert channel.

    An empty ``about`` means all alerts. ``quiet`` is a time span like 23:00-07:00, or null.
    """

    name: str
    form: str
    about: list[str]
    quiet: str | None
    last: ToldReply | None


class AlertsReply(TypedDict):
    """The alert channels.

    ``on`` is false if no service sends alerts. ``wrong`` lists the channel files that cannot be
    read.
    """

    on: bool
    channels: list[ChannelReply]
    wrong: list[str]


ASKED: AskedReply = {"asked": True}


def show(channels: AlertChannels | None) -> AlertsReply:
    """Return the reply with all channels."""
    if channels is None:
        return {"on": False, "channels": [], "wrong": []}
    return {
        "on": True,
        "channels": [_channel(channel) for channel in channels.all],
        "wrong": [*channels.wrong],
    }


def _channel(channel: AlertChannel) -> ChannelReply:
    last: ToldReply | None = None
    if channel.last is not None:
        last = {
            "at": iso(channel.last.at),
            "title": channel.last.title,
            "why": channel.last.why or None,
        }
    return {
        "name": channel.name,
        "form": channel.form,
        "about": [*channel.about],
        "quiet": channel.quiet or None,
        "last": last,
    }


NOBODY = "no service sends alerts here: start svc-stack or svc-watch, or use svcctl alerts test"


@define(eq=False)
class AlertActs:
    """The owner's operations on alerts.

    ``folder`` is the host's folder, which all services share.
    """

    record: Callable[[AuditEntry, Act[None]], Awaitable[None]]  # adds a row to the audit log
    wall_clock: Callable[[], float]
    folder: Path = field(factory=Path.cwd)

    def channels(self) -> AlertChannels | None:
        """Return the alert channels, or None if no service sends alerts."""
        return alert_channels.read(self.folder, self.wall_clock())

    async def test(self, by: str, name: str, reason: str = "") -> None:
        """Request a test alert for a channel; raises Conflict, Missing or Unavailable."""

        def act(_: Connection, __: Trace) -> None:
            channels = self.channels()
            if channels is None:
                raise Conflict(NOBODY, code="no_watcher")
            if name not in {channel.name for channel in channels.all}:
                raise Missing("no alert channel has this name", code="not_found")
            try:  # in the transaction, so that the audit row has the result; a repeat does no harm
                alert_channels.ask(self.folder, name, self.wall_clock())
            except OSError as why:
                raise Unavailable(
                    f"the test could not be requested: {why.strerror}", code="disk"
                ) from why

        await self.record(AuditEntry(by, "test alerts", name, reason), act)


@frozen
class AlertRoutes:
    """The routes that list the alert channels and test a channel."""

    routes: ClassVar[Routes] = Routes(worded, access=Access.ADMIN_KEY, again=Again.NEVER)
    acts: AlertActs

    @routes.row("GET", "/svc/api/DashboardAlerts", role=Role.HELPER, reply=AlertsReply, quiet=True)
    async def channels(self, call: Call) -> Answer:
        """List the alert channels with the results of their last alerts, but without addresses."""
        return Answer(200, show(self.acts.channels()), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardAlertTest",
        body=TrialWish,
        reply=AskedReply,
        bad_json=BAD_JSON,
    )
    async def test(self, call: Call[TrialWish]) -> Answer:
        """Send a test alert through one channel, even during its quiet hours."""
        await self.acts.test(staff_of(call).name, call.body.name, call.body.reason)
        return Answer(200, ASKED, NO_STORE)
