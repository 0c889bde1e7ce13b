"""The features by which staff looks after people, made of what the metagame shares."""

from __future__ import annotations

from collections.abc import Iterator

from svcserver.kernel.counters import Counters
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.access.staff_sessions import StaffSessions
from svcserver.metagame.accounts.audit import Audit
from svcserver.metagame.accounts.sessions import Sessions
from svcserver.metagame.owner.announcements.acts import Announcements
from svcserver.metagame.owner.announcements.routes import AnnouncementRoutes
from svcserver.metagame.owner.moderation.acts import ModerationActs
from svcserver.metagame.owner.moderation.opening import OpeningActs
from svcserver.metagame.owner.moderation.routes import ModerationRoutes
from svcserver.metagame.owner.moderation.signing_in import SignInRoutes
from svcserver.metagame.owner.people.handling import HandlingActs, HandlingRoutes
from svcserver.web.routes import Feature


def staff_features(
    audit: Audit,
    sessions: Sessions,
    announcements: Announcements,
    limit: ReadLimit,
    server: str,
    counters: Counters,
) -> Iterator[Feature]:
    """Moderation, the dashboard's sessions and announcements; ``server`` is its name."""
    yield ModerationRoutes(ModerationActs(audit, sessions), limit)
    staff = StaffSessions(sessions.board, sessions.epochs)
    yield SignInRoutes(staff, OpeningActs(audit, sessions.board, counters), server)
    yield HandlingRoutes(HandlingActs(audit, sessions))
    yield AnnouncementRoutes(announcements)
