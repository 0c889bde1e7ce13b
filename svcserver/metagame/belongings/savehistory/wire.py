"""Request and reply shapes of save histories. Spec: 2 §4 SaveHistory, rollback."""

from __future__ import annotations

from typing import Annotated, TypedDict

from attrs import frozen

from svcserver.kernel.shapes import Count, Moment, pascal_case, spelled, text
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.belongings.characters.rules import Character, Head
from svcserver.metagame.belongings.loadouts.rules import Loadout
from svcserver.metagame.belongings.savehistory.rules import SaveHistory


class LoadoutVersion(TypedDict):
    """A save of a loadout, without its data."""

    Version: int
    SavedDate: Moment
    Reason: str


class CharacterVersion(LoadoutVersion):
    """A save of a character, without its data."""

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
    """The history of one character, or of each of an account's characters."""

    Characters: list[History]


@spelled(pascal_case)
@frozen
class RollbackWish:
    """The version to make the newest."""

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


def show(history: SaveHistory) -> History:
    """Return the wire form of a history."""
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
