"""Announcements: data shapes, transactions, table and routes."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypedDict

import sqlalchemy as sa
from attrs import asdict, define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from svcserver.db.ledger import ACROSS
from svcserver.db.one_row import OneRow, the_one
from svcserver.db.tables import METADATA
from svcserver.kernel.every import Every
from svcserver.kernel.roles import Role
from svcserver.kernel.shapes import Moment, pascal_case, spelled, text
from svcserver.kernel.signals import Announced, Signal
from svcserver.kernel.times import iso
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.accounts.audit import Audit, AuditEntry, Trace
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.once import Again
from svcserver.metagame.owner.announcements import rules
from svcserver.metagame.owner.announcements.rules import MAX_TEXT, Announcement, NewAnnouncement
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer

Duration = Annotated[str, text(0, 16)]


@spelled(pascal_case)
@frozen
class AnnouncementRequest:
    """The text to announce; an empty text ends the announcement.

    ``For`` and ``RestartIn`` are durations such as ``10m``.
    """

    text: Annotated[str, text(0, MAX_TEXT)] = ""
    for_: Duration = ""
    restart_in: Duration = ""
    reason: Reason = ""


class AnnouncementEntry(TypedDict):
    """An announcement: text, author, end time, and the time of a planned restart."""

    text: str
    by: str
    since: Moment
    until: Moment
    restartAt: Moment | None


class AnnouncementReply(TypedDict):
    """The current announcement, or null if there is none."""

    announcement: AnnouncementEntry | None


def described(announcement: Announcement | None) -> AnnouncementEntry | None:
    """Return an announcement as the audit log and replies show it."""
    if announcement is None:
        return None
    return {
        "text": announcement.text,
        "by": announcement.made_by,
        "since": iso(announcement.made_at / 1000),
        "until": iso(announcement.ends_at / 1000),
        "restartAt": None
        if announcement.restart_at is None
        else iso(announcement.restart_at / 1000),
    }


def show_announcement(announcement: Announcement | None) -> AnnouncementReply:
    """Return the reply with the current announcement."""
    return {"announcement": described(announcement)}


# ``svcctl`` and other metagames write to the same database, so poll the announcement
EVERY_S = 1.0


@define(eq=False)
class Announcements:
    """The current announcement; the signal ``line_due`` is sent for each line to write in chat."""

    audit: Audit
    line_due: Signal[Announced]
    _current: Announcement | None = field(default=None, init=False)
    _mark: int | None = field(default=None, init=False)

    def current(self) -> Announcement | None:
        """Return the announcement to show now, or None if there is none."""
        announcement = self._current
        return (
            announcement
            if announcement is not None and announcement.holds(self.audit.wall_clock())
            else None
        )

    async def make(
        self, by: str, request: NewAnnouncement | None, reason: str
    ) -> Announcement | None:
        """Publish an announcement; if the request is None, end the current announcement."""
        entry = AuditEntry(by, "announce" if request is not None else "announce end", "", reason)

        def act(tx: sa.Connection, trace: Trace) -> Announcement | None:
            at, store = self.audit.wall_clock(), SqlAnnouncement(tx)
            trace.before = described(store.get(at))
            made = None if request is None else rules.announced(request, by, at)
            store.put(made)
            trace.after = described(made)
            return made

        made = await self.audit.write(entry, act, ACROSS)
        self._take(made)
        return made

    def refresh(self) -> Deferred[None]:
        """Read the stored announcement, and send the chat line that is due, if any."""
        wall_clock = self.audit.wall_clock
        read = self.audit.ledger.read_snapshot(lambda tx: SqlAnnouncement(tx).get(wall_clock()))
        return read.addCallback(self._take)

    def _take(self, announcement: Announcement | None) -> None:
        if announcement != self._current:
            self._current, self._mark = announcement, None
        if announcement is None:
            return
        line, self._mark = rules.due(announcement, self._mark, self.audit.wall_clock())
        if line is not None:
            self.line_due.send(Announced(line, announcement.made_at, self._mark or 0))


def announcement_watch(announcements: Announcements, clock: IReactorTime) -> Every:
    """Return the service that calls ``refresh`` every ``EVERY_S``."""
    return Every(clock, EVERY_S, announcements.refresh, "the check for announcements")


ANNOUNCEMENTS = sa.Table(
    "announcements",
    METADATA,
    the_one(),
    sa.Column("text", sa.String(256), nullable=False),
    sa.Column("made_by", sa.String(96), nullable=False),
    sa.Column(
        "made_at", sa.BigInteger, nullable=False
    ),  # epoch milliseconds, like the next two columns
    sa.Column("ends_at", sa.BigInteger, nullable=False),
    sa.Column("restart_at", sa.BigInteger, nullable=True),
)
_STORED = OneRow(ANNOUNCEMENTS)


@frozen
class SqlAnnouncement:
    """The announcement table, within one open transaction."""

    tx: sa.Connection

    def get(self, now: float) -> Announcement | None:
        """Return the announcement to show at ``now`` (epoch seconds), or None if there is none."""
        row = _STORED.get(self.tx)
        if row is None:
            return None
        announcement = Announcement(row.text, row.made_by, row.made_at, row.ends_at, row.restart_at)
        return announcement if announcement.holds(now) else None

    def put(self, announcement: Announcement | None) -> None:
        """Replace the stored announcement, or delete it if the new announcement is None."""
        _STORED.put(self.tx, None if announcement is None else asdict(announcement))


@frozen
class AnnouncementRoutes:
    """The routes that read, publish and end the announcement."""

    routes: ClassVar[Routes] = Routes(worded, access=Access.ADMIN_KEY, again=Again.NEVER)
    announcements: Announcements

    @routes.row(
        "GET",
        "/svc/api/DashboardAnnouncement",
        role=Role.HELPER,
        reply=AnnouncementReply,
        quiet=True,
    )
    async def current(self, call: Call) -> Answer:
        """Show the current announcement and its author; players see its text at ``/svc-status``."""
        return Answer(200, show_announcement(self.announcements.current()), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardAnnouncement",
        role=Role.MODERATOR,
        body=AnnouncementRequest,
        reply=AnnouncementReply,
        bad_json=BAD_JSON,
    )
    async def make(self, call: Call[AnnouncementRequest]) -> Answer:
        """Announce a text and, optionally, a restart time. An empty text ends the announcement."""
        sent = call.body
        request = (
            rules.new_announcement(sent.text, sent.for_, sent.restart_in) if sent.text else None
        )
        made = await self.announcements.make(staff_of(call).name, request, sent.reason)
        return Answer(200, show_announcement(made), NO_STORE)
