"""What an owner sees and sets of a player's progression. Spec: 2 §4 Management API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, NotRequired, TypedDict

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.kernel.refusals import Malformed, Missing
from svcserver.metagame.accounts.behalf import text_field
from svcserver.metagame.accounts.eventlog import EventLog
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.achievements.entitlements import rules as rights
from svcserver.metagame.achievements.entitlements.records import (
    EntitlementRecord,
    listing,
    show,
    wish,
)
from svcserver.metagame.achievements.entitlements.store import SqlEntitlements, grant
from svcserver.metagame.achievements.progression import rules, wire
from svcserver.metagame.achievements.progression.config import Tracks
from svcserver.metagame.achievements.progression.routes import selected
from svcserver.metagame.achievements.progression.store import SqlBook
from svcserver.metagame.achievements.progression.wire import (
    ObjectiveRecord,
    TrackRecord,
    TrackReport,
)
from svcserver.metagame.settings import Settings
from svcserver.web.routes import Access, Answer, Call, Routes, bare


class Report(TypedDict):
    """Everything about an account's progression."""

    UserId: str
    RealMode: bool
    HuntPass: str
    Tracks: list[TrackReport]
    Objectives: list[ObjectiveRecord]
    Entitlements: list[EntitlementRecord]


class SeedWish(TypedDict):
    """Whose progression, and to where."""

    UserId: str
    Mode: Literal["grandfather", "fresh"]


class RevokeWish(TypedDict):
    """Whose, and which."""

    UserId: str
    Entitlement: str


class GrantWish(RevokeWish):
    """``Duration`` in hours; 0 or absent for ever."""

    Duration: NotRequired[float]


class Seeded(TypedDict):
    """``Tracks``: the rows written."""

    UserId: str
    Mode: str
    RealMode: bool
    Tracks: list[TrackRecord]


class EntitlementsHeld(TypedDict):
    """What the account holds now."""

    UserId: str
    Entitlements: list[EntitlementRecord]


class EntitlementRevoked(EntitlementsHeld):
    """``Revoked``: it was in force."""

    Revoked: bool


@frozen
class ProgressionManagement:
    """Report, seed, grant, revoke."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    tracks: Tracks
    ledger: Ledger
    now: Callable[[], float]
    log: EventLog

    @routes.row(
        "GET", "/svc/api/Progression", access=Access.ADMIN_KEY, reply=Report, query=("UserId",)
    )
    async def report(self, call: Call) -> Answer:
        """Tracks with the ranks they earn, objectives, entitlements. Writes nothing."""
        user_id = call.request.argument("UserId")
        if not user_id:
            raise Malformed("UserId is missing", code="bad_request")
        return Answer(200, await self.ledger.read(lambda tx: self._report(tx, user_id)))

    def _report(self, tx: Connection, user_id: str) -> Report:
        if SqlAccounts(tx).find(user_id) is None:
            raise Missing("no such account", code="not_found")
        book, paths, at = SqlBook(tx), self.tracks.paths, round(self.now() * 1000)
        held = rights.with_defaults(
            SqlEntitlements(tx).all(user_id), self.settings.entitlements_default, at
        )
        active = {one.name for one in rights.active(held, at)}
        tracks = rules.in_order(book.tracks(user_id), paths)
        objectives = book.objectives(user_id)
        return {
            "UserId": user_id,
            "RealMode": self.settings.real_progression(user_id),
            "HuntPass": selected(self.tracks, book.hunt_pass(user_id)),
            "Tracks": [
                wire.track_report(user_id, one, paths.get(one.id), active) for one in tracks
            ],
            "Objectives": [
                wire.objective_record(user_id, objectives[name]) for name in sorted(objectives)
            ],
            "Entitlements": show(held, at),
        }

    @routes.row(
        "POST",
        "/svc/api/SeedProgression",
        access=Access.ADMIN_KEY,
        body=object,
        sends=SeedWish,
        reply=Seeded,
    )
    async def seed(self, call: Call) -> Answer:
        """``grandfather``: all at their end; ``fresh``: all at 0."""
        user_id, mode = text_field(call.body, "UserId"), call.body.get("Mode")
        paths = self.tracks.paths

        def work(tx: Connection, notes: list[str]) -> Answer:
            book, at = SqlBook(tx), round(self.now() * 1000)
            written = rules.seed(book, user_id, paths, mode, at)
            book.forget(user_id)
            said = {
                "UserId": user_id,
                "Mode": mode,
                "RealMode": self.settings.real_progression(user_id),
                "Tracks": [wire.track_record(user_id, one) for one in written],
            }
            return Answer(200, said)

        return await self.log.write(call, user_id, work)

    @routes.row(
        "POST",
        "/svc/api/GrantEntitlement",
        access=Access.ADMIN_KEY,
        body=object,
        sends=GrantWish,
        reply=EntitlementsHeld,
    )
    async def grant(self, call: Call) -> Answer:
        """Grant for hours; 0 or absent for ever."""
        user_id = text_field(call.body, "UserId")

        def work(tx: Connection, notes: list[str]) -> Answer:
            name, sent = wish(call.body, "Entitlement")
            duration, now = rights.hours(sent.get("Duration")), self.now()
            self._listing(tx, user_id, now)
            grant(tx, user_id, name, duration, "admin", now)
            return self._entitlements(tx, user_id, now)

        return await self.log.write(call, user_id, work)

    @routes.row(
        "POST",
        "/svc/api/RevokeEntitlement",
        access=Access.ADMIN_KEY,
        body=object,
        sends=RevokeWish,
        reply=EntitlementRevoked,
    )
    async def revoke(self, call: Call) -> Answer:
        """End one; ``Revoked`` says whether it was in force."""
        user_id = text_field(call.body, "UserId")

        def work(tx: Connection, notes: list[str]) -> Answer:
            (name, _), now = wish(call.body, "Entitlement"), self.now()
            self._listing(tx, user_id, now)
            kept = SqlEntitlements(tx)
            was = rights.revoke(kept, user_id, kept.all(user_id).get(name), round(now * 1000))
            return self._entitlements(tx, user_id, now, Revoked=was)

        return await self.log.write(call, user_id, work)

    def _listing(self, tx: Connection, user_id: str, now: float) -> list[EntitlementRecord]:
        return listing(tx, user_id, self.settings.entitlements_default, now)

    def _entitlements(self, tx: Connection, user_id: str, now: float, **more: Any) -> Answer:
        said = {"UserId": user_id, **more, "Entitlements": self._listing(tx, user_id, now)}
        return Answer(200, said)
