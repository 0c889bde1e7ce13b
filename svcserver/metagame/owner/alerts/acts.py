"""The channels of alerts as whoever sends them describes them, and tests that are asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from attrs import define, field
from sqlalchemy import Connection

from svcserver.kernel import alert_channels
from svcserver.kernel.alert_channels import AlertChannels
from svcserver.kernel.refusals import Conflict, Missing, Unavailable
from svcserver.metagame.accounts.audit import Act, Entry, Trace

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
