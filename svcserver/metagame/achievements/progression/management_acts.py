"""The owner's operations on a player's progression, one transaction each. Spec: 2 §4."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Missing
from svcserver.kernel.shapes import Late
from svcserver.metagame.accounts.eventlog import Entry, EventLog, Notes
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.achievements.entitlements import rules as entitlements
from svcserver.metagame.achievements.entitlements.rules import Entitlement
from svcserver.metagame.achievements.entitlements.store import SqlEntitlements, grant, listing
from svcserver.metagame.achievements.progression import rules, traces, wire
from svcserver.metagame.achievements.progression.config import Tracks
from svcserver.metagame.achievements.progression.rules import Mode, Overview, Revoking, Seeding
from svcserver.metagame.achievements.progression.store import SqlProgress
from svcserver.metagame.settings import Settings


@frozen
class ManagementActs:
    """The owner's hand on progression: report, seed, grant and revoke."""

    settings: Settings
    tracks: Tracks
    ledger: Ledger
    wall_clock: Callable[[], float]
    events: EventLog

    async def report(self, account_id: AccountId) -> Overview:
        """All stored progression of an account; raises Missing."""
        return await self.ledger.read(lambda tx: self._report(tx, account_id))

    def _report(self, tx: Connection, account_id: AccountId) -> Overview:
        if SqlAccounts(tx).find(account_id) is None:
            raise Missing("no such account", code="not_found")
        store, paths, at = SqlProgress(tx), self.tracks.paths, self._at()
        stored = SqlEntitlements(tx).all(account_id)
        held = entitlements.with_defaults(stored, self.settings.entitlements_default, at)
        objectives = store.objectives(account_id)
        return Overview(
            self.settings.real_progression(account_id),
            rules.selected(paths, store.hunt_pass(account_id), self.tracks.active),
            [(one, paths.get(one.id)) for one in rules.in_order(store.tracks(account_id), paths)],
            [objectives[name] for name in sorted(objectives)],
            entitlements.active(held, at),
        )

    async def seed(self, entry: Entry[Seeding], late: Late[Mode]) -> Seeding:
        """Set all tracks to their end, or to 0."""
        account_id = entry.account_id

        def work(tx: Connection, notes: Notes) -> Seeding:
            store, mode = SqlProgress(tx), late.read()
            stored, objectives = store.tracks(account_id), len(store.objectives(account_id))
            written = rules.seed(store, account_id, self.tracks.paths, mode, self._at())
            store.forget(account_id)
            before = traces.of_tracks(rules.in_order(stored, self.tracks.paths))
            notes.trace.before = {**before, "objectives": objectives}
            notes.trace.after = {**traces.of_tracks(written), "mode": mode}
            return Seeding(mode, self.settings.real_progression(account_id), written)

        return await self.events.write(entry, work)

    async def grant(
        self, entry: Entry[Sequence[Entitlement]], wish: wire.GrantWish
    ) -> Sequence[Entitlement]:
        """Grant an entitlement; answers with the list."""
        account_id, late = entry.account_id, wish.duration

        def work(tx: Connection, notes: Notes) -> Sequence[Entitlement]:
            name, hours = wish.entitlement.read(), 0.0 if late is None else late.read()
            now = self.wall_clock()
            before = self._listing(tx, account_id, now)
            grant(tx, account_id, name, hours, "admin", now)
            after = self._listing(tx, account_id, now)
            notes.trace.before = traces.of_entitlement(name, before)
            notes.trace.after = traces.of_entitlement(name, after)
            return after

        return await self.events.write(entry, work)

    async def revoke(self, entry: Entry[Revoking], late: Late[str]) -> Revoking:
        """End an entitlement; whether it was in force, and the list."""
        account_id = entry.account_id

        def work(tx: Connection, notes: Notes) -> Revoking:
            name, now, kept = late.read(), self.wall_clock(), SqlEntitlements(tx)
            before = self._listing(tx, account_id, now)
            held = kept.all(account_id).get(name)
            was = entitlements.revoke(kept, account_id, held, round(now * 1000))
            after = self._listing(tx, account_id, now)
            notes.trace.before = traces.of_entitlement(name, before)
            notes.trace.after = traces.of_entitlement(name, after)
            return Revoking(was, after)

        return await self.events.write(entry, work)

    def _listing(self, tx: Connection, account_id: AccountId, now: float) -> Sequence[Entitlement]:
        return listing(tx, account_id, self.settings.entitlements_default, now)

    def _at(self) -> int:
        return round(self.wall_clock() * 1000)
