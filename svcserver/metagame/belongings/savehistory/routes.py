"""The owner's side of saves: what there is, and going back. Spec: 2 §4 Management API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, TypedDict

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.kernel.refusals import Malformed, Missing
from svcserver.kernel.shapes import Count, pascal_case, spelled, text
from svcserver.kernel.times import iso
from svcserver.metagame.belongings.loadouts import rules as loadouts
from svcserver.metagame.belongings.loadouts.store import SqlRack
from svcserver.metagame.belongings.savehistory import rules
from svcserver.metagame.belongings.savehistory.store import SqlArchive
from svcserver.web.routes import Access, Answer, Call, Routes, bare

log = Logger()


class LoadoutVersion(TypedDict):
    """A saved loadout, without it."""

    Version: int
    SavedDate: str
    Reason: str


class CharacterVersion(LoadoutVersion):
    """A saved character, without its data."""

    Size: int


class History(TypedDict):
    """A character and its saves, the newest first."""

    CharacterId: str
    UserId: str
    Name: str
    UpdateVersion: int
    CharacterVersions: list[CharacterVersion]
    LoadoutVersions: list[LoadoutVersion]


class HistoryReply(TypedDict):
    """Histories of one or of all characters of an account."""

    Characters: list[History]


@spelled(pascal_case)
@frozen
class RollbackWish:
    """Which version shall be the newest."""

    character_id: Annotated[str, text(1)]
    version: Count


class RolledBack(TypedDict):
    """A character after a rollback."""

    CharacterId: str
    RolledBackTo: int
    PreviousVersion: int
    UpdateVersion: int


class LoadoutRolledBack(TypedDict):
    """A loadout after a rollback; its version is the loadout's own."""

    CharacterId: str
    RolledBackTo: int
    Version: int


@frozen
class SaveHistory:
    """Read and roll back saves; for admins."""

    routes: ClassVar[Routes] = Routes(bare)
    ledger: Ledger
    now: Callable[[], float]

    @routes.row(
        "GET",
        "/svc/api/SaveHistory",
        access=Access.ADMIN_KEY,
        reply=HistoryReply,
        query=("UserId", "CharacterId"),
    )
    async def read(self, call: Call) -> Answer:
        """By ``CharacterId`` or else by ``UserId``; no data in the reply."""
        user_id, character_id = (
            call.request.argument("UserId"),
            call.request.argument("CharacterId"),
        )
        if not user_id and not character_id:
            raise Malformed("name a UserId or a CharacterId")

        def work(tx: Connection) -> list[History]:
            archive = SqlArchive(tx)
            heads = archive.heads(user_id, character_id or None)
            return [_history(archive, head) for head in heads]

        found = await self.ledger.read(work)
        if not found:
            raise Missing("nothing found")
        return Answer(200, {"Characters": found})

    @routes.row(
        "POST",
        "/svc/api/RollbackCharacter",
        access=Access.ADMIN_KEY,
        body=RollbackWish,
        reply=RolledBack,
    )
    async def roll_back(self, call: Call[RollbackWish]) -> Answer:
        """Make an old version of a character the newest."""
        character_id, version = call.body.character_id, call.body.version
        before, after = await self.ledger.write(
            lambda tx: rules.roll_back(SqlArchive(tx), character_id, version, self.now())
        )
        log.info(
            "rolled character {character} back to version {version}",
            character=character_id,
            version=version,
        )
        reply: RolledBack = {
            "CharacterId": character_id,
            "RolledBackTo": version,
            "PreviousVersion": before.update_version,
            "UpdateVersion": after.update_version,
        }
        return Answer(200, reply)

    @routes.row(
        "POST",
        "/svc/api/RollbackLoadout",
        access=Access.ADMIN_KEY,
        body=RollbackWish,
        reply=LoadoutRolledBack,
    )
    async def roll_back_loadout(self, call: Call[RollbackWish]) -> Answer:
        """Make an old version of a loadout the newest."""
        character_id, version = call.body.character_id, call.body.version
        after = await self.ledger.write(
            lambda tx: loadouts.roll_back(SqlRack(tx), character_id, version, self.now())
        )
        log.info(
            "rolled the loadout of {character} back to version {version}",
            character=character_id,
            version=version,
        )
        reply: LoadoutRolledBack = {
            "CharacterId": character_id,
            "RolledBackTo": version,
            "Version": after.version,
        }
        return Answer(200, reply)


def _history(archive: SqlArchive, head: Any) -> History:
    character_id, account_id, name, update_version = head
    return {
        "CharacterId": character_id,
        "UserId": account_id,
        "Name": name,
        "UpdateVersion": update_version,
        "CharacterVersions": [
            {"Version": version, "SavedDate": iso(at / 1000), "Reason": reason, "Size": size}
            for version, at, reason, size in archive.saves(character_id)
        ],
        "LoadoutVersions": [
            {"Version": version, "SavedDate": iso(at / 1000), "Reason": reason}
            for version, at, reason in archive.loadout_saves(character_id)
        ],
    }
