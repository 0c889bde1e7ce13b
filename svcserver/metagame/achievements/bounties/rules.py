"""Rules of updates to a bounty board. Spec: 1 §4 POST /bounty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from attrs import frozen

from svcserver.kernel import json
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Conflict

MAX_BYTES = 262_144

NO_DRAFT: Mapping[str, Json] = {
    "current_draft_choices": [],
    "previous_draft_selections": [],
    "bronze_count": 0,
    "silver_count": 0,
    "gold_count": 0,
}


@frozen
class Bounty:
    """A bounty on the board; ``sent`` is returned to the client unchanged."""

    id: str
    slot: int | None
    version: int
    sent: Mapping[str, Any]


@frozen
class AccountBoard:
    """What an account has on its board; the bounties in any order."""

    bounties: Sequence[Bounty]
    draft: Mapping[str, Json] | None


class Bounties(Protocol):
    """Stored bounty boards, inside one transaction."""

    def bounties(self, account_id: AccountId) -> dict[str, Bounty]: ...

    def keep(self, account_id: AccountId, bounty: Bounty) -> None: ...

    def drop(self, account_id: AccountId, bounty_ids: Sequence[str]) -> None: ...

    def keep_draft(self, account_id: AccountId, draft: Mapping[str, Json]) -> None: ...


def update(
    board: Bounties,
    account_id: AccountId,
    wanted: Iterable[Bounty],
    draft: Mapping[str, Json] | None,
    notes: list[str],
    most: int = MAX_BYTES,
) -> None:
    """Insert or replace bounties by id; others stay, and the draft does where None is sent.

    A bounty in a taken slot replaces the one there; one with an older version is skipped, with
    a note. Raises Conflict for a board or draft that grows beyond ``most`` bytes.
    """
    before_all = board.bounties(account_id)
    stored = dict(before_all)
    for sent in wanted:
        before = stored.get(sent.id)
        if before is not None and sent.version < before.version:
            notes.append(f"{sent.id}: version {sent.version} is older than {before.version}")
            continue
        pushed = [
            other.id
            for other in stored.values()
            if other.id != sent.id and sent.slot is not None and other.slot == sent.slot
        ]
        for other in pushed:
            del stored[other]
        stored[sent.id] = sent
    _check_size(before_all, stored, draft, most)
    board.drop(account_id, [one for one in before_all if one not in stored])
    for name, one in stored.items():
        if before_all.get(name) is not one:
            board.keep(account_id, one)
    if draft is not None:
        board.keep_draft(account_id, draft)


def _check_size(
    before: Mapping[str, Bounty],
    after: Mapping[str, Bounty],
    draft: Mapping[str, Json] | None,
    most: int,
) -> None:
    size = _size(after)
    if (size > most and size > _size(before)) or len(json.dump(draft)) > most:
        raise Conflict("the bounty board holds as much as it may")


def _size(bounties: Mapping[str, Bounty]) -> int:
    return len(json.dump([one.sent for one in bounties.values()]))


def in_order(bounties: Iterable[Bounty]) -> list[Bounty]:
    """By slot, then id; those without a slot last."""
    return sorted(bounties, key=lambda one: (one.slot is None, one.slot or 0, one.id))
