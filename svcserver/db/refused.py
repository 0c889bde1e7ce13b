"""Records a refusal in one row, although the refused work itself is rolled back.

If ``work`` raises an error, everything that it wrote is rolled back. So ``work`` raises
RefusedWrite, and then ``write_or_record`` inserts the record of the refusal.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from sqlalchemy import Insert

from svcserver.db.ledger import ACROSS, Ledger, Scope, Work
from svcserver.db.shield import shielded
from svcserver.kernel.refusals import Refusal

T = TypeVar("T")


class RefusedWrite(Exception):
    """The error that a unit of work raises to refuse a request and to record the refusal.

    The work is rolled back. Then ``write_or_record`` inserts ``row`` with the statement ``add``,
    and raises ``why``.
    """

    def __init__(self, why: Refusal, add: Insert, row: Mapping[str, Any]) -> None:
        super().__init__(why.message)
        self.why, self.add, self.row = why, add, row


@shielded
async def write_or_record(ledger: Ledger, work: Work[T], scope: Scope = ACROSS) -> T:
    """Call ``ledger.write``; if ``work`` raises RefusedWrite, record the refusal and raise it.

    The record is on disk before the refusal is raised.
    """
    try:
        return await ledger.write(work, scope)
    except RefusedWrite as refused:
        add, row, why = refused.add, refused.row, refused.why
    await ledger.write(lambda tx: tx.execute(add, row), scope)
    raise why
