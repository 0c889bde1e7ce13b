"""Operations on tracks, objectives and hunt passes, one transaction each.

The event log records writes, also those with malformed bodies. A repeated grant is recognised by
the bytes of its body, before the body is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.kernel import json
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.names import is_name
from svcserver.kernel.refusals import Forbidden, Missing
from svcserver.kernel.secrets import fingerprint
from svcserver.kernel.shapes import Late
from svcserver.metagame.accounts.eventlog import EventEntry, EventLog, WriteNotes
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.achievements.bounds import check_capacity
from svcserver.metagame.achievements.entitlements import rules as entitlements
from svcserver.metagame.achievements.entitlements.feature import SqlEntitlements, listing
from svcserver.metagame.achievements.entitlements.rules import Entitlement
from svcserver.metagame.achievements.progression import rules, wire
from svcserver.metagame.achievements.progression.config import Tracks
from svcserver.metagame.achievements.progression.rules import (
    Mode,
    Objective,
    ProgressionOverview,
    Revoking,
    Seeding,
    Track,
)
from svcserver.metagame.achievements.progression.store import SqlProgress
from svcserver.metagame.achievements.wire import record
from svcserver.metagame.settings import MetagameSettings


def of_tracks(tracks: Sequence[Track]) -> dict[str, Json]:
    """Return the progress and both confirmed ranks (free, premium) of each track, for a log."""
    return {
        "tracks": {
            track.id: [track.progress, track.confirmed_free, track.confirmed_premium]
            for track in tracks
        }
    }


def of_entitlement(name: str, held: Sequence[Entitlement]) -> dict[str, Json]:
    """Return a dict that maps the entitlement's name to its record in ``held``, or to None."""
    records = (
        record(entitlement.name, entitlement.duration, entitlement.activated_at)
        for entitlement in held
        if entitlement.name == name
    )
    return {name: next(records, None)}


log = Logger()
RETRY = "a retry: answered with the stored reply"
MAX_NOTES = 10  # logged notes per write


@frozen
class ProgressionActs:
    """Reads, grants, confirms and resets tracks and objectives."""

    settings: MetagameSettings
    tracks: Tracks
    ledger: Ledger
    wall_clock: Callable[[], float]
    events: EventLog

    async def objectives(self, account_id: AccountId) -> Mapping[str, Objective]:
        """Return the account's stored objectives as a dict from id to objective."""
        return await self.ledger.read_snapshot(lambda tx: SqlProgress(tx).objectives(account_id))

    async def objective(self, account_id: AccountId, objective_id: str) -> Objective:
        """Return an objective; if it is not stored, its values are 0."""

        def work(tx: Connection) -> Objective:
            stored, at = None, self._at()
            if is_name(objective_id):
                stored = SqlProgress(tx).objective(account_id, objective_id)
            return stored or Objective(objective_id, 0, 0, at, at)

        return await self.ledger.read_snapshot(work)

    async def stored(self, account_id: AccountId) -> Mapping[str, Track]:
        """Return the account's stored tracks as a dict from id to track."""
        return await self.ledger.read_snapshot(lambda tx: SqlProgress(tx).tracks(account_id))

    async def grant(self, entry: EventEntry[bytes], late: Late[wire.GrantBody]) -> bytes:
        """Add progress to tracks, store new values of objectives, and return the reply.

        A repeated grant changes nothing; its reply is the reply to the first grant.
        """
        settings, account_id, sent_hash = self.settings, entry.account_id, fingerprint(entry.body)
        window_ms = settings.progression_replay_window_s * 1000

        def work(tx: Connection, notes: list[str]) -> bytes:
            store, at = SqlProgress(tx), self._at()
            stored = store.repeated(account_id, sent_hash, at, window_ms)
            if stored is not None:
                notes.append(RETRY)
                return stored
            cap, most = settings.progression_grant_cap, settings.achievements_max
            request = late.parse_value().grant()
            stored_tracks = store.tracks(account_id) if request.tracks else {}
            goals = store.objectives(account_id) if request.objectives else {}
            check_capacity(stored_tracks, request.tracks, most)
            check_capacity(goals, request.objectives, most)
            tracks = rules.grown_tracks(stored_tracks, request.tracks, cap, notes)
            objectives = rules.set_objectives(goals, request.objectives, at, notes)
            store.put_tracks(account_id, tracks)
            store.put_objectives(account_id, objectives)
            reply = json.dump(wire.granted(account_id, tracks, objectives))
            store.remember(account_id, sent_hash, reply, at)
            return reply

        done, notes = await self.events.noted(entry, work)
        _warn(account_id, notes)
        return done

    async def add(self, entry: EventEntry[Track], track_id: str, amount: str) -> Track:
        """Add progress to one track; ``amount`` is the text from the path."""
        cap, most = self.settings.progression_grant_cap, self.settings.achievements_max
        account_id = entry.account_id

        def work(tx: Connection, notes: list[str]) -> Track:
            store, more = SqlProgress(tx), wire.amount_in_path(track_id, amount)
            amounts, stored = {track_id: max(more, 0)}, store.tracks(account_id)
            check_capacity(stored, amounts, most)
            [track] = rules.grown_tracks(stored, amounts, cap, notes)
            store.put_tracks(account_id, [track])
            store.forget(account_id)
            return track

        done, notes = await self.events.noted(entry, work)
        _warn(account_id, notes)
        return done

    async def confirm(self, entry: EventEntry[Track], track_id: str, rank: str, kind: str) -> Track:
        """Confirm a rank of a track; raises Missing or Forbidden.

        With PROGRESSION_CONFIRM_ENTITLEMENTS, grant the permanent entitlements of the confirmed
        ranks.
        """
        settings, account_id = self.settings, entry.account_id

        def work(tx: Connection, notes: list[str]) -> Track:
            store, ask, now = SqlProgress(tx), wire.confirmation(rank, kind), self.wall_clock()
            path = self.tracks.paths.get(track_id)
            if path is None:
                raise Missing("no such track")
            entitlements = SqlEntitlements(tx, settings.entitlements_default)
            active = entitlements.active(account_id, now)
            before = store.tracks(account_id).get(path.id) or Track(path.id)
            track, granted = rules.confirm(before, path, ask, active, round(now * 1000))
            if track is not before:
                store.put_tracks(account_id, [track])
            store.forget(account_id)
            for of_rank, name in granted if settings.progression_confirm_entitlements else ():
                entitlements.grant(account_id, name, 0, f"confirm:{path.id}:{of_rank}", now)
                notes.append(f"granted {name}")
            return track

        return await self.events.write(entry, work)

    async def reset(self, entry: EventEntry[Track], track_id: str) -> Track:
        """Reset one track; game servers may do this only with PROGRESSION_ALLOW_DELETE=1."""
        allowed = entry.by_admin or self.settings.progression_allow_delete

        def work(tx: Connection, notes: WriteNotes) -> Track:
            if not allowed:
                raise Forbidden("PROGRESSION_ALLOW_DELETE is off")
            store = SqlProgress(tx)
            before, track = store.tracks(entry.account_id).get(track_id), Track(track_id)
            if before is None and track_id not in self.tracks.paths:
                raise Missing("no such track", code="not_found")
            store.drop_track(entry.account_id, track_id)
            notes.trace.before = of_tracks([before or track])
            notes.trace.after = of_tracks([track])
            store.forget(entry.account_id)
            return track

        return await self.events.write(entry, work)

    def _at(self) -> int:
        return round(self.wall_clock() * 1000)


@frozen
class HuntPassActs:
    """Reads and chooses an account's hunt pass."""

    tracks: Tracks
    ledger: Ledger
    events: EventLog

    async def read_chosen_pass(self, account_id: AccountId) -> str:
        """Return the track that the account chose as its hunt pass.

        If it chose none, or if the chosen track is no longer configured, return the default track.
        """
        chosen = await self.ledger.read_snapshot(lambda tx: SqlProgress(tx).hunt_pass(account_id))
        return rules.selected(self.tracks.paths, chosen, self.tracks.active)

    async def choose(self, entry: EventEntry[str], late: Late[wire.HuntPassRequest]) -> str:
        """Store and return the track that the account chose as its hunt pass."""

        def work(tx: Connection, notes: list[str]) -> str:
            chosen = rules.configured(self.tracks.paths, late.parse_value().progression_id)
            SqlProgress(tx).choose(entry.account_id, chosen)
            return chosen

        return await self.events.write(entry, work)


def _warn(account_id: AccountId, notes: Sequence[str]) -> None:
    for note in [text for text in notes if text != RETRY][:MAX_NOTES]:
        log.warn("progression of {account}: {note}", account=account_id, note=note)


@frozen
class ManagementActs:
    """The operations with which the owner reads and changes an account's progression."""

    settings: MetagameSettings
    tracks: Tracks
    ledger: Ledger
    wall_clock: Callable[[], float]
    events: EventLog

    async def report(self, account_id: AccountId) -> ProgressionOverview:
        """Return all stored progression of an account; raises Missing for an unknown account."""
        return await self.ledger.read_snapshot(lambda tx: self._report(tx, account_id))

    def _report(self, tx: Connection, account_id: AccountId) -> ProgressionOverview:
        if SqlAccounts(tx).find(account_id) is None:
            raise Missing("no such account", code="not_found")
        store, paths, at = SqlProgress(tx), self.tracks.paths, self._at()
        stored = SqlEntitlements(tx).all(account_id)
        held = entitlements.with_defaults(stored, self.settings.entitlements_default, at)
        objectives = store.objectives(account_id)
        return ProgressionOverview(
            self.settings.real_progression(account_id),
            rules.selected(paths, store.hunt_pass(account_id), self.tracks.active),
            [
                (track, paths.get(track.id))
                for track in rules.in_order(store.tracks(account_id), paths)
            ],
            [objectives[name] for name in sorted(objectives)],
            entitlements.active(held, at),
        )

    async def seed(self, entry: EventEntry[Seeding], late: Late[Mode]) -> Seeding:
        """Set all tracks to their maximum or, in mode ``fresh``, reset tracks and objectives."""
        account_id = entry.account_id

        def work(tx: Connection, notes: WriteNotes) -> Seeding:
            store, mode = SqlProgress(tx), late.parse_value()
            stored, objectives = store.tracks(account_id), len(store.objectives(account_id))
            written = rules.seeded(stored, self.tracks.paths, mode, self._at())
            if mode == "fresh":
                store.drop_objectives(account_id)
            store.put_tracks(account_id, written)
            store.forget(account_id)
            before = of_tracks(rules.in_order(stored, self.tracks.paths))
            notes.trace.before = {**before, "objectives": objectives}
            notes.trace.after = {**of_tracks(written), "mode": mode}
            return Seeding(mode, self.settings.real_progression(account_id), written)

        return await self.events.write(entry, work)

    async def grant(
        self, entry: EventEntry[Sequence[Entitlement]], request: wire.GrantRequest
    ) -> Sequence[Entitlement]:
        """Grant an entitlement; return the list of entitlements in force."""
        account_id, late = entry.account_id, request.duration

        def work(tx: Connection, notes: WriteNotes) -> Sequence[Entitlement]:
            name, hours = (
                request.entitlement.parse_value(),
                0.0 if late is None else late.parse_value(),
            )
            now = self.wall_clock()
            before = self._listing(tx, account_id, now)
            SqlEntitlements(tx).grant(account_id, name, hours, "admin", now)
            after = self._listing(tx, account_id, now)
            notes.trace.before = of_entitlement(name, before)
            notes.trace.after = of_entitlement(name, after)
            return after

        return await self.events.write(entry, work)

    async def revoke(self, entry: EventEntry[Revoking], late: Late[str]) -> Revoking:
        """Revoke an entitlement; the result contains the entitlements that remain."""
        account_id = entry.account_id

        def work(tx: Connection, notes: WriteNotes) -> Revoking:
            name, now, store = late.parse_value(), self.wall_clock(), SqlEntitlements(tx)
            before = self._listing(tx, account_id, now)
            held = store.all(account_id).get(name)
            was = store.revoke(account_id, held, round(now * 1000))
            after = self._listing(tx, account_id, now)
            notes.trace.before = of_entitlement(name, before)
            notes.trace.after = of_entitlement(name, after)
            return Revoking(was, after)

        return await self.events.write(entry, work)

    def _listing(self, tx: Connection, account_id: AccountId, now: float) -> Sequence[Entitlement]:
        return listing(tx, account_id, self.settings.entitlements_default, now)

    def _at(self) -> int:
        return round(self.wall_clock() * 1000)
