"""Save histories: shapes, transactions, queries and admin routes. Spec: 2 §4 SaveHistory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, TypedDict

from attrs import frozen
from sqlalchemy import Connection, bindparam, delete, select
from twisted.logger import Logger

from svcserver.db.ledger import Ledger, OneAccount
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Malformed, Missing
from svcserver.kernel.roles import Role
from svcserver.kernel.shapes import Count, Moment, pascal_case, spelled, text
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.audit import Act, Audit, AuditEntry, Trace
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.accounts.recorded import by_staff
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.belongings.characters.rules import Character, Head
from svcserver.metagame.belongings.characters.store import (
    CHARACTER_SAVES,
    CHARACTERS,
    SqlCharacters,
)
from svcserver.metagame.belongings.documents import Document
from svcserver.metagame.belongings.loadouts.rules import Loadout
from svcserver.metagame.belongings.loadouts.store import (
    LOADOUT_ELEMENTS,
    LOADOUT_SAVES,
    SqlLoadouts,
    ids_in,
)
from svcserver.metagame.belongings.savehistory.rules import Retention, Save, SaveHistory, thinned
from svcserver.metagame.once import Again
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import MetagameSettings
from svcserver.web.routes import Answer, Feature, bare


class LoadoutVersion(TypedDict):
    """The version, time and reason of one save of a loadout."""

    Version: int
    SavedDate: Moment
    Reason: str


class CharacterVersion(LoadoutVersion):
    """The version, time, reason and size of one save of a character."""

    Size: int


class History(TypedDict):
    """A character and its saves, newest first."""

    CharacterId: str
    UserId: str
    Name: str
    UpdateVersion: int
    CharacterVersions: list[CharacterVersion]
    LoadoutVersions: list[LoadoutVersion]


class HistoryReply(TypedDict):
    """The history of one character, or of every character of an account."""

    Characters: list[History]


@spelled(pascal_case)
@frozen
class RollbackRequest:
    """The version to roll back to."""

    character_id: Annotated[str, text(1)]
    version: Count
    reason: Reason = ""


class RolledBack(TypedDict):
    """A character after a rollback."""

    CharacterId: str
    RolledBackTo: int
    PreviousVersion: int
    UpdateVersion: int


class LoadoutRolledBack(TypedDict):
    """A loadout after a rollback; ``version`` is the loadout's version, not the character's."""

    CharacterId: str
    RolledBackTo: int
    Version: int


def show_history(history: SaveHistory) -> History:
    """Return a history in the form in which the reply contains it."""
    return {
        "CharacterId": history.character_id,
        "UserId": history.account_id,
        "Name": history.name,
        "UpdateVersion": history.update_version,
        "CharacterVersions": [
            {"Version": version, "SavedDate": iso(at / 1000), "Reason": reason, "Size": size}
            for version, at, reason, size in history.saves
        ],
        "LoadoutVersions": [
            {"Version": version, "SavedDate": iso(at / 1000), "Reason": reason}
            for version, at, reason in history.loadout_saves
        ],
    }


def show_rolled_back(character_id: str, version: int, before: Head, after: Character) -> RolledBack:
    """Return the reply about a character that was rolled back to ``version``."""
    return {
        "CharacterId": character_id,
        "RolledBackTo": version,
        "PreviousVersion": before.update_version,
        "UpdateVersion": after.update_version,
    }


def show_loadout(character_id: str, version: int, after: Loadout) -> LoadoutRolledBack:
    """Return the reply about loadouts that were rolled back to ``version``."""
    return {"CharacterId": character_id, "RolledBackTo": version, "Version": after.version}


log = Logger()


def rolled_back(
    character_id: CharacterId, version: int, wall_clock: Callable[[], float]
) -> Act[tuple[Head, Character]]:
    """Return an audited action that rolls a character back to an old version."""

    def act(tx: Connection, trace: Trace) -> tuple[Head, Character]:
        before = SqlCharacters(tx).find(character_id)
        character = _described(tx, before, trace)
        document = SqlHistories(tx).document(character_id, version) if before is not None else None
        if before is None or document is None:
            raise Missing("no such version")
        reason = f"rollback:{version}"
        after = SqlCharacters(tx).make_newest(before, document, wall_clock(), reason)
        trace.before = {"version": before.update_version}
        trace.after = {**character, "version": after.update_version, "as": version}
        return before, after

    return act


def loadout_rolled_back(
    character_id: CharacterId, version: int, wall_clock: Callable[[], float]
) -> Act[Loadout]:
    """Return an audited action that rolls a character's loadouts back to an old version."""

    def act(tx: Connection, trace: Trace) -> Loadout:
        character = _described(tx, SqlCharacters(tx).find(character_id), trace)
        store = SqlLoadouts(tx)
        before = store.find(character_id)
        after = store.roll_back(character_id, version, wall_clock())
        trace.before = None if before is None else {"version": before.version}
        trace.after = {**character, "version": after.version, "as": version}
        return after

    return act


@frozen
class SaveHistoryActs:
    """Reads the old saves of characters and loadouts, and rolls back to one of them."""

    ledger: Ledger
    wall_clock: Callable[[], float]
    audit: Audit

    async def read_histories(
        self, account_id: AccountId | None, character_id: CharacterId | None
    ) -> Sequence[SaveHistory]:
        """Return the history of one character, or of an account's characters; raises Missing."""

        def work(tx: Connection) -> list[SaveHistory]:
            store = SqlHistories(tx)
            return [store.read_history(head) for head in store.heads(account_id, character_id)]

        histories = await self.ledger.read_snapshot(work)
        if not histories:
            raise Missing("there is no such character")
        return histories

    async def roll_back(
        self, entry: AuditEntry, character_id: CharacterId, version: int
    ) -> tuple[Head, Character]:
        """Roll a character back to an old version; return the character before and after."""

        act = rolled_back(character_id, version, self.wall_clock)
        done = await self.audit.write(entry, act, await self._scope(character_id))
        log.info(
            "rolled character {character} back to version {version}",
            character=character_id,
            version=version,
        )
        return done

    async def roll_back_loadout(
        self, entry: AuditEntry, character_id: CharacterId, version: int
    ) -> Loadout:
        """Roll a loadout back to an old version; return the loadout after the change."""

        act = loadout_rolled_back(character_id, version, self.wall_clock)
        after = await self.audit.write(entry, act, await self._scope(character_id))
        log.info(
            "rolled the loadout of {character} back to version {version}",
            character=character_id,
            version=version,
        )
        return after

    async def _scope(self, character_id: CharacterId) -> OneAccount:
        """Return the scope of a write to the character: only the character's account is locked.

        A character never changes its account, so the scope is still right when the write runs.
        """
        head = await self.ledger.read_snapshot(lambda tx: SqlCharacters(tx).find(character_id))
        return OneAccount("" if head is None else head.account_id)


def _described(tx: Connection, head: Head | None, trace: Trace) -> dict[str, str]:
    """Return a character's fields for the audit log; set ``trace.target`` to its account."""
    if head is None:
        return {}
    owner = SqlAccounts(tx).find(head.account_id)
    trace.target = head.account_id if owner is None else owner.username
    return {"character": head.id, "name": head.name}


_C, _S, _L, _E = CHARACTERS.c, CHARACTER_SAVES.c, LOADOUT_SAVES.c, LOADOUT_ELEMENTS.c
_CHARACTER: Any = bindparam("character")
_HEADS = select(_C.id, _C.account_id, _C.name, _C.update_version)
_BY_ID = _HEADS.where(_C.id == _CHARACTER)
_BY_ACCOUNT = _HEADS.where(_C.account_id == bindparam("account")).order_by(_C.created_at, _C.id)
_SAVES = (
    select(_S.version, _S.saved_at, _S.reason, _S.size)
    .where(_S.character_id == _CHARACTER)
    .order_by(_S.id.desc())
)
_LOADOUT_SAVES = (
    select(_L.version, _L.saved_at, _L.reason)
    .where(_L.character_id == _CHARACTER)
    .order_by(_L.id.desc())
)
_DOCUMENT = (
    select(_S.data, _S.size)
    .where(_S.character_id == _CHARACTER, _S.version == bindparam("version"))
    .order_by(_S.id.desc())
    .limit(1)
)
_TIMES = select(_S.id, _S.saved_at, _S.request_id).where(_S.character_id == _CHARACTER)
_DROP = delete(CHARACTER_SAVES).where(_S.id == bindparam("gone"))
_LOADOUT_TIMES = select(_L.id, _L.saved_at, _L.request_id).where(_L.character_id == _CHARACTER)
_DROP_LOADOUT = delete(LOADOUT_SAVES).where(_L.id == bindparam("gone"))
_LISTED = select(_L.elements).where(_L.character_id == _CHARACTER)
_ELEMENTS = select(_E.id).where(_E.character_id == _CHARACTER)
_DROP_ELEMENT = delete(LOADOUT_ELEMENTS).where(_E.id == bindparam("gone"))

Rows = list[Any]


@frozen
class SqlHistories:
    """The tables of characters and their histories, within one transaction."""

    tx: Connection

    def document(self, character_id: CharacterId, version: int) -> Document | None:
        values = {"character": character_id, "version": version}
        row = self.tx.execute(_DOCUMENT, values).first()
        return None if row is None else Document(*row)

    def heads(self, account_id: AccountId | None, character_id: CharacterId | None) -> Rows:
        """Return the character with this id; without an id, all characters of the account."""
        if character_id is not None:
            return list(self.tx.execute(_BY_ID, {"character": character_id}))
        return list(self.tx.execute(_BY_ACCOUNT, {"account": account_id}))

    def read_history(self, head: Any) -> SaveHistory:
        """Return the history of a character; ``head`` is a row that ``heads`` returned."""
        character_id, account_id, name, version = head
        saves, loadout_saves = self.saves(character_id), self.loadout_saves(character_id)
        return SaveHistory(character_id, account_id, name, version, saves, loadout_saves)

    def saves(self, character_id: CharacterId) -> Rows:
        """Return the version, time, reason and size of each save, newest first."""
        return list(self.tx.execute(_SAVES, {"character": character_id}))

    def loadout_saves(self, character_id: CharacterId) -> Rows:
        """Return the version, time and reason of each save of the loadouts, newest first."""
        return list(self.tx.execute(_LOADOUT_SAVES, {"character": character_id}))


@frozen
class Thinning:
    """The deletion of unneeded saves, in the transaction that stores a new save."""

    retention: Retention

    @classmethod
    def for_retention(cls, settings: MetagameSettings) -> Thinning | None:
        """Return the Thinning for these settings, or None if SAVE_HISTORY_KEEP is not set."""
        keep = settings.save_history_keep
        if keep is None:
            return None
        return cls(Retention(keep, settings.save_history_hourly, settings.save_history_daily))

    def characters(self, tx: Connection, character_id: CharacterId, now: float) -> None:
        """Delete a character's saves that need not be kept; the newest save is never deleted."""
        self._thin(tx, _TIMES, _DROP, character_id, now)

    def loadouts(self, tx: Connection, character_id: CharacterId, now: float) -> None:
        """Delete a character's loadout saves that need not be kept.

        Loadout elements that no remaining save contains are also deleted.
        """
        if not self._thin(tx, _LOADOUT_TIMES, _DROP_LOADOUT, character_id, now):
            return
        wanted = {"character": character_id}
        listed = ids_in(tx.execute(_LISTED, wanted).scalars())
        _drop(tx, _DROP_ELEMENT, set(tx.execute(_ELEMENTS, wanted).scalars()) - listed)

    def _thin(
        self, tx: Connection, times: Any, drop: Any, character_id: CharacterId, now: float
    ) -> bool:
        saves = [Save(*row) for row in tx.execute(times, {"character": character_id})]
        return _drop(tx, drop, thinned(saves, self.retention, now))


def _drop(tx: Connection, statement: Any, ids: Iterable[int]) -> bool:
    values = [{"gone": row_id} for row_id in ids]
    if values:
        tx.execute(statement, values)
    return bool(values)


@frozen
class SaveHistoryRoutes:
    """The admins' routes that list saves and roll back to one of them."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.ADMIN_KEY, again=Again.NEVER)
    acts: SaveHistoryActs

    @routes.row(
        "GET",
        "/svc/api/SaveHistory",
        role=Role.HELPER,
        reply=HistoryReply,
        query={"UserId": str, "CharacterId": str},
    )
    async def read(self, call: Call) -> Answer:
        """List the saves of one character, or of an account's characters, without their content."""
        user_id, character_id = map(call.request.argument, ("UserId", "CharacterId"))
        if not user_id and not character_id:
            raise Malformed("UserId or CharacterId is missing")
        histories = await self.acts.read_histories(user_id, character_id or None)
        return Answer(200, {"Characters": [show_history(history) for history in histories]})

    @routes.row("POST", "/svc/api/RollbackCharacter", body=RollbackRequest, reply=RolledBack)
    async def roll_back(self, call: Call[RollbackRequest]) -> Answer:
        """Roll a character back: save an old version again, as the newest version."""
        name, version = call.body.character_id, call.body.version
        entry = by_staff(call, "roll back", name)
        before, after = await self.acts.roll_back(entry, name, version)
        return Answer(200, show_rolled_back(name, version, before, after))

    @routes.row("POST", "/svc/api/RollbackLoadout", body=RollbackRequest, reply=LoadoutRolledBack)
    async def roll_back_loadout(self, call: Call[RollbackRequest]) -> Answer:
        """Roll a character's loadouts back: save an old version again, as the newest version."""
        name, version = call.body.character_id, call.body.version
        entry = by_staff(call, "roll back loadout", name)
        after = await self.acts.roll_back_loadout(entry, name, version)
        return Answer(200, show_loadout(name, version, after))


def savehistory(parts: Parts) -> Iterator[Feature]:
    """Yield the routes of save histories."""
    yield SaveHistoryRoutes(SaveHistoryActs(parts.ledger, parts.wall_clock, parts.audit))
