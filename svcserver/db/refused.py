"""Records a refusal in one row, although the refused work itself is rolled back.

Work that raises is always rolled back. Where the specification wants a refusal recorded,
the work raises ``RefusedWrite``, and is run by ``write_or_record``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from sqlalchemy import Insert

from svcserver.db.ledger import ACROSS, Ledger, Scope, Work
from svcserver.db.shield import shielded
from svcserver.kernel.refusals import Refusal

T = TypeVar("T")


class RefusedWrite(Exception):
    """Raised by work: roll it back, insert ``row`` by the statement ``add``, and raise ``why``."""

    def __init__(self, why: Refusal, add: Insert, row: Mapping[str, Any]) -> None:
        super().__init__(why.message)
        self.why, self.add, self.row = why, add, row


@shielded
async def write_or_record(ledger: Ledger, work: Work[T], scope: Scope = ACROSS) -> T:
    """As ``ledger.write``; of work that raises ``RefusedWrite`` only its row is committed.

    The row is on disk before the refusal is raised.
    """
    try:
        return await ledger.write(work, scope)
    except RefusedWrite as one:
        add, row, why = one.add, one.row, one.why
    await ledger.write(lambda tx: tx.execute(add, row), scope)
    raise why
