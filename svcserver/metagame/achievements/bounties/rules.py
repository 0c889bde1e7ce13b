"""Rules of updates to a bounty board. Spec: 1 §4 POST /bounty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

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
    """The board of an account: bounties in any order, and the JSON of its draft."""

    bounties: Sequence[Bounty]
    draft: bytes | None


def updated(
    stored: Mapping[str, Bounty], sent: Iterable[Bounty], notes: list[str]
) -> dict[str, Bounty]:
    """Return the board with bounties inserted or replaced by id; others stay.

    A bounty in a taken slot replaces the one there; one with an older version is skipped, with
    a note.
    """
    board = dict(stored)
    for bounty in sent:
        before = board.get(bounty.id)
        if before is not None and bounty.version < before.version:
            notes.append(f"{bounty.id}: version {bounty.version} is older than {before.version}")
            continue
        if bounty.slot is not None:
            board = {
                name: current
                for name, current in board.items()
                if name == bounty.id or current.slot != bounty.slot
            }
        board[bounty.id] = bounty
    return board


def check_size(
    before: Mapping[str, Bounty],
    after: Mapping[str, Bounty],
    draft: bytes | None,
    most: int = MAX_BYTES,
) -> None:
    """Raise Conflict for a board or draft that grows beyond ``most`` bytes."""
    size = _size(after)
    if (size > most and size > _size(before)) or len(draft or b"") > most:
        raise Conflict("the bounty board is full")


def _size(bounties: Mapping[str, Bounty]) -> int:
    """Bytes of the bounties as a list of the reply: each with a comma or a bracket."""
    return 1 + sum(len(bounty.data) + 1 for bounty in bounties.values())


def in_order(bounties: Iterable[Bounty]) -> list[Bounty]:
    """Return bounties by slot, then id; those without a slot last."""
    return sorted(bounties, key=lambda bounty: (bounty.slot is None, bounty.slot or 0, bounty.id))
