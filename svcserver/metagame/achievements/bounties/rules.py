"""Rules of updates to a bounty board. Spec: 1 §4 POST /bounty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Conflict

MAX_BYTES = 262_144


@frozen
class Bounty:
    """A bounty on the board; ``data`` is its JSON, returned to the client unchanged."""

    id: str
    slot: int | None
    version: int
    data: bytes


@frozen
class AccountBoard:
    """What an account has on its board: bounties in any order, and the JSON of its draft."""

    bounties: Sequence[Bounty]
    draft: bytes | None


class Bounties(Protocol):
    """Stored bounty boards, inside one transaction."""

    def bounties(self, account_id: AccountId) -> dict[str, Bounty]: ...

    def keep(self, account_id: AccountId, bounty: Bounty) -> None: ...

    def drop(self, account_id: AccountId, bounty_ids: Sequence[str]) -> None: ...

    def keep_draft(self, account_id: AccountId, draft: bytes) -> None: ...


def update(
    board: Bounties,
    account_id: AccountId,
    wanted: Iterable[Bounty],
    draft: bytes | None,
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
    draft: bytes | None,
    most: int,
) -> None:
    size = _size(after)
    if (size > most and size > _size(before)) or len(draft or b"") > most:
        raise Conflict("the bounty board holds as much as it may")


def _size(bounties: Mapping[str, Bounty]) -> int:
    """Bytes of the bounties as a list of the reply: each with a comma or a bracket."""
    return 1 + sum(len(one.data) + 1 for one in bounties.values())


def in_order(bounties: Iterable[Bounty]) -> list[Bounty]:
    """By slot, then id; those without a slot last."""
    return sorted(bounties, key=lambda one: (one.slot is None, one.slot or 0, one.id))
