"""Histories of saves as an owner reads them. Spec: 2 §4 SaveHistory, Rollback…"""

from __future__ import annotations

from typing import Annotated, TypedDict

from attrs import frozen

from svcserver.kernel.shapes import Count, pascal_case, spelled, text
from svcserver.kernel.times import iso
from svcserver.metagame.belongings.savehistory.rules import Kept


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


def show(kept: Kept) -> History:
    """A character and its saves."""
    return {
        "CharacterId": kept.character_id,
        "UserId": kept.account_id,
        "Name": kept.name,
        "UpdateVersion": kept.update_version,
        "CharacterVersions": [
            {"Version": version, "SavedDate": iso(at / 1000), "Reason": reason, "Size": size}
            for version, at, reason, size in kept.saves
        ],
        "LoadoutVersions": [
            {"Version": version, "SavedDate": iso(at / 1000), "Reason": reason}
            for version, at, reason in kept.loadout_saves
        ],
    }
