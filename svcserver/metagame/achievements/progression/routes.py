"""The progression routes. Spec: 1 §4 Progression, hunt pass, entitlements, cooldowns, bounties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.kernel import json
from svcserver.kernel.ids import AccountId
from svcserver.kernel.names import is_name
from svcserver.kernel.refusals import Forbidden, Malformed, Missing
from svcserver.kernel.secrets import fingerprint
from svcserver.metagame.accounts.eventlog import EventLog
from svcserver.metagame.achievements.entitlements.store import SqlEntitlements, grant
from svcserver.metagame.achievements.progression import rules, wire
from svcserver.metagame.achievements.progression.config import Tracks
from svcserver.metagame.achievements.progression.rules import Objective, Track
from svcserver.metagame.achievements.progression.store import SqlBook
from svcserver.metagame.achievements.progression.wire import Granted, ObjectiveRecord, TrackRecord
from svcserver.metagame.settings import Settings
from svcserver.web.routes import Access, Answer, Call, Envelope, Routes, bare, enveloped

log = Logger()
RETRY = "a retry: answered with the stored reply"


def confirms(settings: Any) -> bool:
    """PROGRESSION_CONFIRM."""
    return bool(settings.progression_confirm)


@frozen
class Progression:
    """Tracks and objectives: read, grant, confirm, reset."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    tracks: Tracks
    ledger: Ledger
    now: Callable[[], float]
    log: EventLog

    @routes.row("GET", "/progression/config", access=Access.TOKEN, reply=Envelope[wire.ConfigReply])
    async def config(self, call: Call) -> Answer:
        """Tracks, ranks and rewards."""
        return enveloped(self.tracks.wire)

    @routes.row(
        "GET",
        "/progression/objectives/<user_id>",
        access=Access.TOKEN,
        own=True,
        reply=Envelope[list[ObjectiveRecord] | Granted],
    )
    async def objectives(self, call: Call, user_id: str) -> Answer:
        """Stored objectives by id: an array."""
        if not self.settings.real_progression(user_id):
            who = call.caller.account or user_id
            mastery = wire.stub_tracks(who, self.tracks.paths)[1:]
            return enveloped({"objectives": [], "progress_tracks": mastery})
        found = await self.ledger.read(lambda tx: SqlBook(tx).objectives(user_id))
        shown = [wire.objective_record(user_id, found[name]) for name in sorted(found)]
        return enveloped(shown, code=200)

    @routes.row(
        "GET",
        "/progression/objectives/<user_id>/<objective_id>",
        access=Access.TOKEN,
        own=True,
        reply=Envelope[ObjectiveRecord],
    )
    async def objective(self, call: Call, user_id: str, objective_id: str) -> Answer:
        """One objective; zeros when none is stored."""
        if not self.settings.real_progression(user_id):
            return enveloped(wire.stub_objective(user_id, objective_id), code="OK")
        found = None
        if is_name(objective_id):
            found = await self.ledger.read(lambda tx: SqlBook(tx).objective(user_id, objective_id))
        at = self._at()
        shown = found or Objective(objective_id, 0, 0, at, at)
        return enveloped(wire.objective_record(user_id, shown), code="OK")

    @routes.row(
        "GET",
        "/progression/<user_id>",
        access=Access.TOKEN,
        own=True,
        reply=Envelope[list[TrackRecord]],
    )
    async def read(self, call: Call, user_id: str) -> Answer:
        """Every track, stored or zeros."""
        paths = self.tracks.paths
        if not self.settings.real_progression(user_id):
            return enveloped(wire.stub_tracks(call.caller.account or user_id, paths))
        stored = await self.ledger.read(lambda tx: SqlBook(tx).tracks(user_id))
        listed = [wire.track_record(user_id, one) for one in rules.in_order(stored, paths)]
        return enveloped(listed, code=200)

    @routes.row(
        "GET",
        "/progression/<user_id>/<progression_id>",
        access=Access.TOKEN,
        own=True,
        real_only=True,
        reply=Envelope[TrackRecord],
    )
    async def one(self, call: Call, user_id: str, progression_id: str) -> Answer:
        """One stored track."""
        stored = await self.ledger.read(lambda tx: SqlBook(tx).tracks(user_id))
        if progression_id not in stored:
            raise Missing("no such track")
        return self._track(user_id, stored[progression_id])

    @routes.row(
        "POST",
        "/progression/<user_id>",
        access=Access.TOKEN,
        game_server=True,
        body=object,
        sends=wire.GrantBody,
        reply=Envelope[Granted],
    )
    async def grant(self, call: Call, user_id: str) -> Answer:
        """Add to tracks, replace objectives; a retry gets the stored reply."""
        if not self.settings.real_progression(user_id):
            raise Malformed("fixed progression takes no grant")
        window_ms = self.settings.progression_replay_window_s * 1000
        body_hash = fingerprint(call.request.body)

        def work(tx: Connection, notes: list[str]) -> Answer:
            book, at = SqlBook(tx), self._at()
            if window_ms > 0:
                kept = book.repeated(user_id, body_hash, at, window_ms)
                if kept is not None:
                    notes.append(RETRY)
                    return Answer(200, kept)
            asked = rules.read_grant(call.body)
            cap = self.settings.progression_grant_cap
            tracks, objectives = rules.apply_grant(
                book, user_id, asked, cap, at, notes, self.settings.achievements_max
            )
            reply = json.dump(_granted(user_id, tracks, objectives))
            book.remember(user_id, body_hash, reply, at)
            return Answer(200, reply)

        said, notes = await self.log.noted(call, user_id, work)
        self._warn(user_id, notes)
        return said

    @routes.row(
        "POST",
        "/progression/<user_id>/<progression_id>/<amount>",
        access=Access.TOKEN,
        game_server=True,
        real_only=True,
        reply=Envelope[TrackRecord],
    )
    async def add(self, call: Call, user_id: str, progression_id: str, amount: str) -> Answer:
        """Add an amount to one track, up to the cap."""
        cap = self.settings.progression_grant_cap

        def work(tx: Connection, notes: list[str]) -> Answer:
            book = SqlBook(tx)
            track = rules.add(
                book, user_id, progression_id, amount, cap, notes, self.settings.achievements_max
            )
            book.forget(user_id)
            return self._track(user_id, track)

        said, notes = await self.log.noted(call, user_id, work)
        self._warn(user_id, notes)
        return said

    @routes.row(
        "POST",
        "/progression/<user_id>/<progression_id>/<rank>/confirm/<kind>",
        access=Access.TOKEN,
        game_server=True,
        real_only=True,
        when=confirms,
        reply=Envelope[TrackRecord],
    )
    async def confirm(
        self, call: Call, user_id: str, progression_id: str, rank: str, kind: str
    ) -> Answer:
        """Confirm a rank; grants permanent entitlements only where the switch says so."""
        settings = self.settings

        def work(tx: Connection, notes: list[str]) -> Answer:
            book, ask = SqlBook(tx), rules.read_confirmation(rank, kind)
            now = self.now()
            path = self.tracks.paths.get(progression_id)
            if path is None:
                raise Missing("no such track")
            active = SqlEntitlements(tx, settings.entitlements_default).active(user_id, now)
            track, given = rules.confirm(book, user_id, path, ask, active, round(now * 1000))
            book.forget(user_id)
            for of_rank, name in given if settings.progression_confirm_entitlements else ():
                grant(tx, user_id, name, 0, f"confirm:{path.id}:{of_rank}", now)
                notes.append(f"granted {name}")
            return self._track(user_id, track)

        return await self.log.write(call, user_id, work)

    @routes.row(
        "DELETE",
        "/progression/<user_id>/<progression_id>",
        access=Access.ADMIN_OR_GAME_SERVER,
        real_only=True,
        reply=Envelope[TrackRecord],
    )
    async def reset(self, call: Call, user_id: str, progression_id: str) -> Answer:
        """Reset one track; a game server only with PROGRESSION_ALLOW_DELETE=1."""
        allowed = call.caller.admin or self.settings.progression_allow_delete

        def work(tx: Connection, notes: list[str]) -> Answer:
            if not allowed:
                raise Forbidden("PROGRESSION_ALLOW_DELETE is off")
            book = SqlBook(tx)
            track = rules.reset(book, user_id, self.tracks.paths, progression_id)
            book.forget(user_id)
            return self._track(user_id, track)

        return await self.log.write(call, user_id, work)

    def _at(self) -> int:
        return round(self.now() * 1000)

    def _track(self, account_id: AccountId, track: Track) -> Answer:
        return enveloped(wire.track_record(account_id, track), code="OK")

    def _warn(self, account_id: AccountId, notes: Sequence[str]) -> None:
        for note in [one for one in notes if one != RETRY][:10]:
            log.warn("progression of {account}: {note}", account=account_id, note=note)


def _granted(
    account_id: AccountId, tracks: Sequence[Track], objectives: Sequence[Objective]
) -> Envelope[Granted]:
    payload: Granted = {
        "progress_tracks": [wire.track_record(account_id, one) for one in tracks],
        "objectives": [wire.objective_record(account_id, one) for one in objectives],
    }
    return {"code": "OK", "message": "OK", "payload": payload}


@frozen
class HuntPass:
    """The selected hunt pass."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    tracks: Tracks
    ledger: Ledger
    log: EventLog

    @routes.row("GET", "/huntpass/<user_id>", access=Access.TOKEN, own=True, reply=Envelope[str])
    async def read(self, call: Call, user_id: str) -> Answer:
        """The stored selection while it is configured, else the default."""
        if not self.settings.real_progression(user_id):
            return enveloped(self.tracks.active)
        chosen = await self.ledger.read(lambda tx: SqlBook(tx).hunt_pass(user_id))
        return enveloped(selected(self.tracks, chosen), code="OK")

    @routes.row(
        "POST",
        "/huntpass/<user_id>",
        access=Access.TOKEN,
        game_server=True,
        real_only=True,
        body=object,
        sends=wire.HuntPassWish,
        reply=Envelope[str],
    )
    async def choose(self, call: Call, user_id: str) -> Answer:
        """Store any configured track."""

        def work(tx: Connection, notes: list[str]) -> Answer:
            chosen = rules.huntpass_of(call.body, self.tracks.paths)
            SqlBook(tx).choose(user_id, chosen)
            return enveloped(chosen, code="OK")

        return await self.log.write(call, user_id, work)


def selected(tracks: Tracks, chosen: str | None) -> str:
    """A stored id no longer configured falls back to the default."""
    return chosen if chosen in tracks.paths and chosen is not None else tracks.active
