"""Operations on tracks, objectives and hunt passes, one transaction each.

Writes are recorded in the event log. Bodies are parsed within the transaction: a repeated
grant is recognised by its bytes first, and a malformed body is recorded, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.kernel import json
from svcserver.kernel.ids import AccountId
from svcserver.kernel.names import is_name
from svcserver.kernel.refusals import Forbidden, Missing
from svcserver.kernel.secrets import fingerprint
from svcserver.kernel.shapes import Late
from svcserver.metagame.accounts.eventlog import EventLog
from svcserver.metagame.achievements.entitlements.store import SqlEntitlements, grant
from svcserver.metagame.achievements.progression import rules, wire
from svcserver.metagame.achievements.progression.config import Tracks
from svcserver.metagame.achievements.progression.rules import Objective, Track
from svcserver.metagame.achievements.progression.store import SqlProgress
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Call
from svcserver.metagame.settings import Settings
from svcserver.web.routes import Answer

log = Logger()
RETRY = "a retry: answered with the stored reply"
MAX_SAID = 10  # notes of one write that are logged


@frozen
class ProgressionActs:
    """Tracks and objectives: read, grant, confirm, reset."""

    settings: Settings
    tracks: Tracks
    ledger: Ledger
    now: Callable[[], float]
    events: EventLog

    async def objectives(self, account_id: AccountId) -> Mapping[str, Objective]:
        """Stored objectives by id."""
        return await self.ledger.read(lambda tx: SqlProgress(tx).objectives(account_id))

    async def objective(self, account_id: AccountId, objective_id: str) -> Objective:
        """An objective; zeros when none is stored."""

        def work(tx: Connection) -> Objective:
            found = (
                SqlProgress(tx).objective(account_id, objective_id)
                if is_name(objective_id)
                else None
            )
            at = self._at()
            return found or Objective(objective_id, 0, 0, at, at)

        return await self.ledger.read(work)

    async def stored(self, account_id: AccountId) -> Mapping[str, Track]:
        """Stored tracks by id."""
        return await self.ledger.read(lambda tx: SqlProgress(tx).tracks(account_id))

    async def grant(self, call: Call[Late[wire.GrantBody]], account_id: AccountId) -> Answer:
        """Add to tracks, replace objectives; a repeat gets the stored reply."""
        settings, sent_hash = self.settings, fingerprint(call.request.body)
        window_ms = settings.progression_replay_window_s * 1000

        def work(tx: Connection, notes: list[str]) -> Answer:
            store, at = SqlProgress(tx), self._at()
            kept = store.repeated(account_id, sent_hash, at, window_ms)
            if kept is not None:
                notes.append(RETRY)
                return Answer(200, kept)
            cap, most = settings.progression_grant_cap, settings.achievements_max
            asked = call.body.read().grant()
            done = rules.apply_grant(store, account_id, asked, cap, at, notes, most)
            reply = json.dump(wire.granted(account_id, *done))
            store.remember(account_id, sent_hash, reply, at)
            return Answer(200, reply)

        said, notes = await self.events.noted(call, account_id, work)
        _warn(account_id, notes)
        return said

    async def add(self, call: Call, account_id: AccountId, track_id: str, amount: str) -> Answer:
        """Add to one track."""
        cap, most = self.settings.progression_grant_cap, self.settings.achievements_max

        def work(tx: Connection, notes: list[str]) -> Answer:
            store, more = SqlProgress(tx), wire.amount_in_path(track_id, amount)
            track = rules.add(store, account_id, track_id, more, cap, notes, most)
            store.forget(account_id)
            return wire.show_track(account_id, track)

        said, notes = await self.events.noted(call, account_id, work)
        _warn(account_id, notes)
        return said

    async def confirm(
        self, call: Call, account_id: AccountId, track_id: str, rank: str, kind: str
    ) -> Answer:
        """Confirm a rank; with PROGRESSION_CONFIRM_ENTITLEMENTS grant its permanent ones."""
        settings = self.settings

        def work(tx: Connection, notes: list[str]) -> Answer:
            store, ask, now = SqlProgress(tx), wire.confirmation(rank, kind), self.now()
            path = self.tracks.paths.get(track_id)
            if path is None:
                raise Missing("no such track")
            active = SqlEntitlements(tx, settings.entitlements_default).active(account_id, now)
            track, given = rules.confirm(store, account_id, path, ask, active, round(now * 1000))
            store.forget(account_id)
            for of_rank, name in given if settings.progression_confirm_entitlements else ():
                grant(tx, account_id, name, 0, f"confirm:{path.id}:{of_rank}", now)
                notes.append(f"granted {name}")
            return wire.show_track(account_id, track)

        return await self.events.write(call, account_id, work)

    async def reset(self, call: Call, account_id: AccountId, track_id: str) -> Answer:
        """Reset one track; a game server only with PROGRESSION_ALLOW_DELETE=1."""
        allowed = call.caller.admin or self.settings.progression_allow_delete

        def work(tx: Connection, notes: list[str]) -> Answer:
            if not allowed:
                raise Forbidden("PROGRESSION_ALLOW_DELETE is off")
            store = SqlProgress(tx)
            track = rules.reset(store, account_id, self.tracks.paths, track_id)
            store.forget(account_id)
            return wire.show_track(account_id, track)

        return await self.events.write(call, account_id, work)

    def _at(self) -> int:
        return round(self.now() * 1000)


@frozen
class HuntPassActs:
    """The selected hunt pass."""

    tracks: Tracks
    ledger: Ledger
    events: EventLog

    async def read(self, account_id: AccountId) -> str:
        """The stored selection while it is configured, else the default."""
        chosen = await self.ledger.read(lambda tx: SqlProgress(tx).hunt_pass(account_id))
        return rules.selected(self.tracks.paths, chosen, self.tracks.active)

    async def choose(self, call: Call[Late[wire.HuntPassWish]], account_id: AccountId) -> Answer:
        """Select a configured track."""

        def work(tx: Connection, notes: list[str]) -> Answer:
            chosen = rules.configured(self.tracks.paths, call.body.read().progression_id)
            SqlProgress(tx).choose(account_id, chosen)
            return enveloped(chosen, code="OK")

        return await self.events.write(call, account_id, work)


def _warn(account_id: AccountId, notes: Sequence[str]) -> None:
    for note in [one for one in notes if one != RETRY][:MAX_SAID]:
        log.warn("progression of {account}: {note}", account=account_id, note=note)
