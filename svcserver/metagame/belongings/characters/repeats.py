"""Whether a character was made or saved already; see ``kernel/repeats.py``."""

from __future__ import annotations

from collections.abc import Callable

from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.repeats import Repeat
from svcserver.metagame.belongings.characters.rules import Character, Characters
from svcserver.metagame.belongings.documents import Document


def made(
    characters: Characters, account_id: AccountId, name: str, now: float, repeat: Repeat
) -> Character | None:
    """The character of that name that the first try may have made."""
    for one in characters.of_account(account_id):
        made_ms = round(one.created_at * 1000)
        if one.name == name and repeat.may_have_done(made_ms, round(now * 1000)):
            return one
    return None


def saved(
    characters: Characters,
    account_id: AccountId,
    character_id: CharacterId | None,
    version: int,
    document: Callable[[], Document],
) -> Character | None:
    """The account's character where this very save is what it holds."""
    for one in characters.of_account(account_id):
        if one.id == character_id and one.update_version == version:
            return one if one.data == document() else None
    return None
