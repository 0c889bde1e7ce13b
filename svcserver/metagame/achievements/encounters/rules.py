"""Rules of encountered content. Spec: 1 §4 Encountered content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Conflict, Forbidden, Malformed

if TYPE_CHECKING:
    from svcserver.metagame.achievements.encounters.feature import SqlEncounters

MAX_TYPE = 7
MAX_TYPE_ASKED = 9999  # of a look-up: four digits, as in a path
MAX_ASKED = 1000


def check_own(owner: AccountId | None, me: AccountId) -> None:
    """Raise Forbidden for another's or an unknown character."""
    if owner != me:
        raise Forbidden("not this player's character")


def meet(
    encounters: SqlEncounters, character_id: CharacterId, kind: int, name: str, most: int
) -> None:
    """Store an encounter, once; raises Conflict when there are ``most`` already."""
    if encounters.has(character_id, kind, name):
        return
    if encounters.count(character_id) >= most:
        raise Conflict("this character has met as much as one may")
    encounters.add(character_id, kind, name)


def check_answer(kinds: Sequence[int], found: Mapping[int, Sequence[str]], most: int) -> None:
    """Raise Malformed when repeated types would make an answer of more than ``most`` ids."""
    repeated = len(set(kinds)) < len(kinds)
    if repeated and sum(len(found.get(kind, ())) for kind in kinds) > most:
        raise Malformed("the same content_types are asked for too often")
