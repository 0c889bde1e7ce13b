"""Announces, and keeps every process up to date with what is announced.

Other metagames write to the same database, so it is read once a second.
"""

from __future__ import annotations

from attrs import define, field
from sqlalchemy import Connection
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from svcserver.db.ledger import ACROSS
from svcserver.kernel.every import Every
from svcserver.kernel.signals import Announced, Signal
from svcserver.metagame.accounts.audit import Audit, Entry, Trace
from svcserver.metagame.owner.announcements import rules
from svcserver.metagame.owner.announcements.rules import Announcement, Wish
from svcserver.metagame.owner.announcements.store import SqlAnnouncement
from svcserver.metagame.owner.announcements.wire import described

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
