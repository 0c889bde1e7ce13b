"""The rules for updating a bounty board. Spec: 1 §4 POST /bounty."""

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
    """An account's bounty board; ``draft`` is JSON, and ``bounties`` has no particular order."""

    bounties: Sequence[Bounty]
    draft: bytes | None


def updated(
    stored: Mapping[str, Bounty], sent: Iterable[Bounty], notes: list[str]
) -> dict[str, Bounty]:
    """Return the board after the sent bounties were added to it.

    A sent bounty replaces stored bounties that have the same id or slot. If the stored bounty with
    the same id has a newer version, the sent bounty is skipped, and ``notes`` gets the reason.
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
    """Raise Conflict if the draft or the board exceeds ``most`` bytes.

    A board above the limit is accepted if it does not grow.
    """
    size = _size(after)
    if (size > most and size > _size(before)) or len(draft or b"") > most:
        raise Conflict("the bounty board is full")


def _size(bounties: Mapping[str, Bounty]) -> int:
    """Return how many bytes the bounties take as a JSON list, including commas and brackets."""
    return 1 + sum(len(bounty.data) + 1 for bounty in bounties.values())


def in_order(bounties: Iterable[Bounty]) -> list[Bounty]:
    """Return the bounties sorted by slot, then by id; bounties without a slot come last."""
    return sorted(bounties, key=lambda bounty: (bounty.slot is None, bounty.slot or 0, bounty.id))
