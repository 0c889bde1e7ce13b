"""Announcements: shapes, acts, table and routes."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypedDict

from attrs import define, field, frozen
from sqlalchemy import BigInteger, Column, Connection, String, Table
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
from svcserver.metagame.accounts.audit import Audit, Entry, Trace
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.once import Again
from svcserver.metagame.owner.announcements import rules
from svcserver.metagame.owner.announcements.rules import MAX_TEXT, Announcement, Wish
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer

Span = Annotated[str, text(0, 16)]


@spelled(pascal_case)
@frozen
class AnnouncementWish:
    """The text (empty: end what is announced), and lengths of time like ``10m``."""

    text: Annotated[str, text(0, MAX_TEXT)] = ""
    for_: Span = ""
    restart_in: Span = ""
    reason: Reason = ""


class AnnouncementEntry(TypedDict):
    """What is announced, by whom, until when, and when the server restarts."""

    text: str
    by: str
    since: Moment
    until: Moment
    restartAt: Moment | None


class AnnouncementReply(TypedDict):
    """What is announced; null for nothing."""

    announcement: AnnouncementEntry | None


def described(one: Announcement | None) -> AnnouncementEntry | None:
    """As the audit log and replies show it."""
    if one is None:
        return None
    return {
        "text": one.text,
        "by": one.made_by,
        "since": iso(one.made_at / 1000),
        "until": iso(one.ends_at / 1000),
        "restartAt": None if one.restart_at is None else iso(one.restart_at / 1000),
    }


def show(one: Announcement | None) -> AnnouncementReply:
    """The reply on what is announced now."""
    return {"announcement": described(one)}


# Announces, and keeps every process up to date with what is announced.
# ``svcctl`` and other metagames write to the same database, so it is read once a second.
EVERY_S = 1.0


@define(eq=False)
class Announcements:
    """What is announced now; ``said`` is sent for each line the chat is to say."""

    audit: Audit
    said: Signal[Announced]
    _current: Announcement | None = field(default=None, init=False)
    _mark: int | None = field(default=None, init=False)

    def current(self) -> Announcement | None:
        """What is announced at this moment; None for nothing."""
        one = self._current
        return one if one is not None and one.holds(self.audit.wall_clock()) else None

    async def make(self, by: str, asked: Wish | None, reason: str) -> Announcement | None:
        """Announce, or with None end what is announced."""
        entry = Entry(by, "announce" if asked is not None else "announce end", "", reason)

        def act(tx: Connection, trace: Trace) -> Announcement | None:
            at, kept = self.audit.wall_clock(), SqlAnnouncement(tx)
            trace.before = described(kept.get(at))
            made = None if asked is None else rules.announced(asked, by, at)
            kept.put(made)
            trace.after = described(made)
            return made

        made = await self.audit.write(entry, act, ACROSS)
        self._take(made)
        return made

    def refresh(self) -> Deferred[None]:
        """Read what others announced, and say what is due."""
        wall_clock = self.audit.wall_clock
        read = self.audit.ledger.read(lambda tx: SqlAnnouncement(tx).get(wall_clock()))
        return read.addCallback(self._take)

    def _take(self, found: Announcement | None) -> None:
        if found != self._current:
            self._current, self._mark = found, None
        if found is None:
            return
        line, self._mark = rules.due(found, self._mark, self.audit.wall_clock())
        if line is not None:
            self.said.send(Announced(line, found.made_at, self._mark or 0))


def announcement_watch(announcements: Announcements, clock: IReactorTime) -> Every:
    """The service that calls ``refresh`` every ``EVERY_S``."""
    return Every(clock, EVERY_S, announcements.refresh, "the look for announcements")


ANNOUNCEMENTS = Table(
    "announcements",
    METADATA,
    the_one(),
    Column("text", String(256), nullable=False),
    Column("made_by", String(96), nullable=False),
    Column("made_at", BigInteger, nullable=False),  # epoch milliseconds, as the next two
    Column("ends_at", BigInteger, nullable=False),
    Column("restart_at", BigInteger, nullable=True),
)
_KEPT = OneRow(ANNOUNCEMENTS)


@frozen
class SqlAnnouncement:
    """The announcement in an open transaction."""

    tx: Connection

    def get(self, now: float) -> Announcement | None:
        """What is announced at that time (epoch seconds)."""
        row = _KEPT.get(self.tx)
        if row is None:
            return None
        found = Announcement(row.text, row.made_by, row.made_at, row.ends_at, row.restart_at)
        return found if found.holds(now) else None

    def put(self, one: Announcement | None) -> None:
        """Replace what is announced; None ends it."""
        if one is None:
            _KEPT.put(self.tx, None)
            return
        row = {
            "text": one.text,
            "made_by": one.made_by,
            "made_at": one.made_at,
            "ends_at": one.ends_at,
            "restart_at": one.restart_at,
        }
        _KEPT.put(self.tx, row)


@frozen
class AnnouncementRoutes:
    """Read, make and end the announcement."""

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
        """What is announced at the moment, and by whom. Players read it at ``/svc-status``."""
        return Answer(200, show(self.announcements.current()), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardAnnouncement",
        role=Role.MODERATOR,
        body=AnnouncementWish,
        reply=AnnouncementReply,
        bad_json=BAD_JSON,
    )
    async def make(self, call: Call[AnnouncementWish]) -> Answer:
        """Announce a text, with a restart or without; an empty text ends what is announced."""
        sent = call.body
        wish = rules.wish(sent.text, sent.for_, sent.restart_in) if sent.text else None
        made = await self.announcements.make(staff_of(call).name, wish, sent.reason)
        return Answer(200, show(made), NO_STORE)
