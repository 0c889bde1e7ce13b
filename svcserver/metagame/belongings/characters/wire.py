"""Request and reply shapes of characters. Spec: 1 §2 Character."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, TypedDict

from attrs import frozen

from svcserver.kernel.json import Fragment, Json
from svcserver.kernel.shapes import (
    CountOrDigits,
    Late,
    Lenient,
    TextWithNul,
    camel_case,
    plain_text,
    spelled,
)
from svcserver.kernel.times import DAY_S
from svcserver.metagame.belongings.characters.rules import MAX_NAME, Character

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@frozen
class NewCharacter:
    """The body of a request for a new character."""

    name: Annotated[str, plain_text(1, MAX_NAME)]


@spelled(camel_case)
@frozen
class CharacterSave:
    """The body of a save; ``data`` is the JSON text of an object.

    ``updateVersion`` must be higher than in the previous save.
    """

    update_version: CountOrDigits
    data: Late[TextWithNul]
    character_id: Lenient[str | None] = None


class CharacterReply(TypedDict):
    """A character; ``data`` is a string that contains JSON text."""

    accountId: str
    createdDate: str
    data: str
    id: str
    lastModifiedDate: str
    name: str
    updateVersion: int


def show_character(character: Character) -> dict[str, Json]:
    """Return the ``CharacterReply`` with the document's text exactly as stored."""
    return {
        "accountId": character.account_id,
        "createdDate": short_date(character.created_at),
        "data": Fragment(character.data.literal),
        "id": character.id,
        "lastModifiedDate": short_date(character.modified_at),
        "name": character.name,
        "updateVersion": character.update_version,
    }


def short_date(seconds: float) -> str:
    """Return the UTC day in a short English format: ``Sep 5, 2026``."""
    return _short_day(int(seconds // DAY_S))


@lru_cache(maxsize=1024)
def _short_day(day: int) -> str:
    moment = datetime.fromtimestamp(day * DAY_S, UTC)
    return f"{_MONTHS[moment.month - 1]} {moment.day}, {moment.year}"
