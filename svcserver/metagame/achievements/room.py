"""How many entries of one kind an account may have: ACHIEVEMENTS_MAX."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from svcserver.kernel.refusals import Conflict


def check_room(stored: Collection[str], wanted: Iterable[str], most: int) -> None:
    """Raises Conflict when ``wanted`` adds names beyond ``most``; known ones always fit."""
    added = {one for one in wanted if one not in stored}
    if added and len(stored) + len(added) > most:
        raise Conflict("this account has as many of these as it may have")
