"""How a bounty board takes an update. Spec: 1 §4 POST /bounty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.names import is_name
from svcserver.kernel.refusals import Malformed

MAX_NUMBER = 2**53
NO_DRAFT: Mapping[str, Json] = {
    "current_draft_choices": [],
    "previous_draft_selections": [],
    "bronze_count": 0,
    "silver_count": 0,
    "gold_count": 0,
}


@frozen
class Bounty:
    """An element of the board; ``sent`` comes back as it came."""

    id: str
    slot: int | None
    version: int
    sent: Mapping[str, Any]


class Board(Protocol):
    """What the rules need kept, inside one transaction."""

    def bounties(self, account_id: AccountId) -> dict[str, Bounty]: ...

    def keep(self, account_id: AccountId, bounty: Bounty) -> None: ...

    def drop(self, account_id: AccountId, bounty_ids: Sequence[str]) -> None: ...

    def keep_draft(self, account_id: AccountId, draft: Mapping[str, Json]) -> None: ...


def update(board: Board, account_id: AccountId, body: Json, now: str, notes: list[str]) -> None:
    """Upsert by id; absent bounties stay.  Raises Malformed before anything is written."""
    if not isinstance(body, dict):
        raise Malformed("the body must be an object")
    listed = body.get("bounties")
    if listed is not None and not isinstance(listed, list):
        raise Malformed("bounties must be a list")
    stored = board.bounties(account_id)
    for one in listed or []:
        sent = _bounty(one, now)
        if sent is None:
            continue
        before = stored.get(sent.id)
        if before is not None and sent.version < before.version:
            notes.append(f"{sent.id}: version {sent.version} is older than {before.version}")
            continue
        pushed = [
            other.id
            for other in stored.values()
            if other.id != sent.id and sent.slot is not None and other.slot == sent.slot
        ]
        board.drop(account_id, pushed)
        for other in pushed:
            del stored[other]
        board.keep(account_id, sent)
        stored[sent.id] = sent
    draft = body.get("draft_data")
    if isinstance(draft, dict):
        board.keep_draft(account_id, draft)


def _bounty(one: Json, now: str) -> Bounty | None:
    name = one.get("bounty_id") if isinstance(one, dict) else None
    if not is_name(name):
        return None
    version = _number(one.get("update_version")) or 0
    stamp = {} if one.get("drafted_timestamp") else {"drafted_timestamp": now}
    return Bounty(str(name), _number(one.get("slot_index")), version, {**one, **stamp})


def _number(value: Json) -> int | None:
    return value if type(value) is int and abs(value) < MAX_NUMBER else None


def in_order(bounties: Mapping[str, Bounty]) -> list[Bounty]:
    """By slot, then id; those without a slot last."""
    return sorted(bounties.values(), key=lambda one: (one.slot is None, one.slot or 0, one.id))


def read_ids(body: Json) -> list[str]:
    """The ids to delete; raises Malformed without a list."""
    listed = body.get("bounty_ids") if isinstance(body, dict) else None
    if not isinstance(listed, list):
        raise Malformed("bounty_ids must be a list")
    return [one for one in listed if is_name(one)]
