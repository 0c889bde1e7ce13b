"""The dashboard's reads of the database, one transaction each. Spec: 2 §4 Management API."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from attrs import field, frozen
from sqlalchemy import Connection, bindparam, select

from svcserver.db.ledger import Ledger, T
from svcserver.db.turns import Turns
from svcserver.kernel import json
from svcserver.kernel.ids import CharacterId
from svcserver.kernel.refusals import Missing
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.achievements.entitlements.feature import ENTITLEMENTS
from svcserver.metagame.belongings.loadouts.store import SqlLoadouts
from svcserver.metagame.belongings.savehistory.feature import SqlHistories
from svcserver.metagame.owner.dashboard.differences import Diff, difference
from svcserver.metagame.owner.dashboard.state import GUILD_TITLES, ChatRoom
from svcserver.metagame.social.guilds.store import SqlGuilds

MAX_SIZE = 4 * 1024 * 1024  # bytes of a compared document
Saved = Callable[[Connection, CharacterId, int], bytes | None]
"""A function that returns the JSON of a saved version of a character, or None."""


@frozen
class DashboardActs:
    """The database reads that only the dashboard needs; each combines data of several features."""

    ledger: Ledger
    granted: Callable[[], Collection[str]]  # default and sold entitlements
    _turns: Turns = field(factory=Turns, init=False, repr=False)

    async def entitlements(self) -> list[str]:
        """Return the names of entitlements that are granted by default, sold, or in use."""
        return sorted({*self.granted(), *await self.ledger.read_snapshot(known_entitlements)})

    async def guild_names(self, rooms: Iterable[ChatRoom]) -> Mapping[str, str]:
        """Return a dict from guild id to guild name for the guilds that own one of these rooms."""
        ids = [room.id for room in rooms if room.kind in GUILD_TITLES]

        def work(tx: Connection) -> dict[str, str]:
            guilds = {guild_id: SqlGuilds(tx).guild(guild_id) for guild_id in ids}
            return {guild_id: guild.name for guild_id, guild in guilds.items() if guild is not None}

        return await self.ledger.read_snapshot(work) if ids else {}

    async def save_diff(self, character_id: CharacterId, old: int, new: int) -> Diff | None:
        """Return the changes between two versions of a character's document; raises Missing.

        Returns None if a document is too large to compare.
        """
        return await self._diff(_saved_document, character_id, old, new)

    async def loadout_diff(self, character_id: CharacterId, old: int, new: int) -> Diff | None:
        """Return the changes between two versions of a character's loadouts; raises Missing."""
        return await self._diff(_saved_loadouts, character_id, old, new)

    async def for_invites(self, codes: Sequence[str], make: Callable[[str], T]) -> list[T]:
        """Return ``make(code)`` for each code; raises Missing for a code that does not exist.

        ``make`` runs in a database thread. Between two calls of ``make``, other reads can use the
        thread.
        """

        def job(code: str, tx: Connection) -> T:
            if SqlAccounts(tx).invite(code) is None:
                raise Missing("there is no such invite code", code="not_found")
            return make(code)

        return [
            await self._turns.run("invites", partial(self.ledger.read_snapshot, partial(job, code)))
            for code in codes
        ]

    async def _diff(
        self, saved: Saved, character_id: CharacterId, old: int, new: int
    ) -> Diff | None:
        def work(tx: Connection) -> Diff | None:
            before, after = (saved(tx, character_id, version) for version in (old, new))
            if before is None or after is None:
                raise Missing("no such version", code="not_found")
            if max(len(before), len(after)) > MAX_SIZE:
                return None
            return difference(before, after)

        return await self.ledger.read_snapshot(work)


def _saved_document(tx: Connection, character_id: CharacterId, version: int) -> bytes | None:
    document = SqlHistories(tx).document(character_id, version)
    return None if document is None else document.literal


def _saved_loadouts(tx: Connection, character_id: CharacterId, version: int) -> bytes | None:
    elements = SqlLoadouts(tx).version(character_id, version)
    if elements is None:
        return None
    return json.dump({name: json.Fragment(elements[name]) for name in sorted(elements)})


MOST_NAMES = 500
_ENTITLEMENTS = (
    select(ENTITLEMENTS.c.name).distinct().order_by(ENTITLEMENTS.c.name).limit(bindparam("count"))
)


def known_entitlements(tx: Connection) -> list[str]:
    """Return, sorted, up to ``MOST_NAMES`` names of entitlements that any account has or had."""
    return list(tx.execute(_ENTITLEMENTS, {"count": MOST_NAMES}).scalars())
