"""What a refusal leaves behind, though everything its work did is undone: one row.

Work that raises is undone, always. Where the specification wants a refusal to be recorded,
the work raises ``Refused`` instead, and is run by ``write_or_record``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from sqlalchemy import Insert

from svcserver.db.ledger import Ledger, Work
from svcserver.db.shield import shielded
from svcserver.kernel.refusals import Refusal

T = TypeVar("T")


class Refused(Exception):
    """Raised by work: undo it, keep the ``row`` that ``add`` inserts, and refuse with ``why``."""

    def __init__(self, why: Refusal, add: Insert, row: Mapping[str, Any]) -> None:
        super().__init__(why.message)
        self.why, self.add, self.row = why, add, row


@shielded
async def write_or_record(ledger: Ledger, work: Work[T], turn: str | None = None) -> T:
    """As ``ledger.write``; when the work raises ``Refused``, its row is on disk before the
    refusal is raised, and nothing else of it.
    """
    try:
        return await ledger.write(work, turn)
    except Refused as one:
        add, row, why = one.add, one.row, one.why
    await ledger.write(lambda tx: tx.execute(add, row), turn)
    raise why
