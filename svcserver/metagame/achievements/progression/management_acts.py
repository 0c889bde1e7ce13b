"""The owner's operations on a player's progression, one transaction each. Spec: 2 §4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Missing
from svcserver.kernel.shapes import Late
from svcserver.metagame.accounts.eventlog import Entry, EventLog
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.achievements.entitlements import records
from svcserver.metagame.achievements.entitlements import rules as rights
from svcserver.metagame.achievements.entitlements.records import EntitlementRecord
from svcserver.metagame.achievements.entitlements.store import SqlEntitlements, grant
from svcserver.metagame.achievements.progression import rules, wire
from svcserver.metagame.achievements.progression.config import Tracks
from svcserver.metagame.achievements.progression.rules import Mode, Track
from svcserver.metagame.achievements.progression.store import SqlProgress
from svcserver.metagame.settings import Settings


class Seeding(NamedTuple):
    """What a seed wrote; ``real``: whether the account has real progression."""

    mode: Mode
    real: bool
    tracks: Sequence[Track]


class Revoking(NamedTuple):
    """What a revocation did; ``was_active``: the entitlement was in force."""

    was_active: bool
    listed: list[EntitlementRecord]


@frozen
class ManagementActs:
    """Report, seed, grant, revoke."""

    settings: Settings
    tracks: Tracks
    ledger: Ledger
    now: Callable[[], float]
    events: EventLog

    async def report(self, account_id: AccountId) -> wire.Report:
        """All stored progression of an account; raises Missing."""
        return await self.ledger.read(lambda tx: self._report(tx, account_id))

    def _report(self, tx: Connection, account_id: AccountId) -> wire.Report:
        if SqlAccounts(tx).find(account_id) is None:
            raise Missing("no such account", code="not_found")
        store, paths, at = SqlProgress(tx), self.tracks.paths, self._at()
        stored = SqlEntitlements(tx).all(account_id)
        held = rights.with_defaults(stored, self.settings.entitlements_default, at)
        active = {one.name for one in rights.active(held, at)}
        tracks = rules.in_order(store.tracks(account_id), paths)
        objectives = store.objectives(account_id)
        return {
            "UserId": account_id,
            "RealMode": self.settings.real_progression(account_id),
            "HuntPass": rules.selected(paths, store.hunt_pass(account_id), self.tracks.active),
            "Tracks": [
                wire.track_report(account_id, one, paths.get(one.id), active) for one in tracks
            ],
            "Objectives": [
                wire.objective_record(account_id, objectives[name]) for name in sorted(objectives)
            ],
            "Entitlements": records.show(held, at),
        }

    async def seed(self, entry: Entry[Seeding], late: Late[Mode]) -> Seeding:
        """Set all tracks to their end, or to 0."""
        account_id = entry.account_id

        def work(tx: Connection, notes: list[str]) -> Seeding:
            store, mode = SqlProgress(tx), late.read()
            written = rules.seed(store, account_id, self.tracks.paths, mode, self._at())
            store.forget(account_id)
            return Seeding(mode, self.settings.real_progression(account_id), written)

        return await self.events.write(entry, work)

    async def grant(
        self, entry: Entry[list[EntitlementRecord]], wish: wire.GrantWish
    ) -> list[EntitlementRecord]:
        """Grant an entitlement; answers with the list."""
        account_id, late = entry.account_id, wish.duration

        def work(tx: Connection, notes: list[str]) -> list[EntitlementRecord]:
            name, hours = wish.entitlement.read(), 0.0 if late is None else late.read()
            now = self.now()
            self._listing(tx, account_id, now)
            grant(tx, account_id, name, hours, "admin", now)
            return self._listing(tx, account_id, now)

        return await self.events.write(entry, work)

    async def revoke(self, entry: Entry[Revoking], late: Late[str]) -> Revoking:
        """End an entitlement; whether it was in force, and the list."""
        account_id = entry.account_id

        def work(tx: Connection, notes: list[str]) -> Revoking:
            name, now, kept = late.read(), self.now(), SqlEntitlements(tx)
            self._listing(tx, account_id, now)
            held = kept.all(account_id).get(name)
            was = rights.revoke(kept, account_id, held, round(now * 1000))
            return Revoking(was, self._listing(tx, account_id, now))

        return await self.events.write(entry, work)

    def _listing(
        self, tx: Connection, account_id: AccountId, now: float
    ) -> list[EntitlementRecord]:
        return records.listing(tx, account_id, self.settings.entitlements_default, now)

    def _at(self) -> int:
        return round(self.now() * 1000)
