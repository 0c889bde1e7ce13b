"""The current registration mode. Spec: 1 §4 Accounts.

The database stores the mode that an admin sets, together with a random mark. The mode is in force
while the board (the store of live state) has the same mark; otherwise, REGISTRATION_MODE is in
force. A restart of the host deletes the mark from the board.
"""

from collections.abc import Callable

from attrs import frozen
from sqlalchemy import Column, Connection, String, Table

from svcserver.board.board import Board
from svcserver.board.kinds import Kind
from svcserver.db.ledger import Ledger
from svcserver.db.one_row import OneRow, the_one
from svcserver.db.tables import METADATA
from svcserver.kernel.secrets import hex_token

MARK = Kind("registration_mark", str)
ONLY = ""  # the key of the only entry
REGISTRATION = Table(
    "registration_mode",
    METADATA,
    the_one(),
    Column("mode", String(16), nullable=False),
    Column("mark", String(32), nullable=False),
)
_STORED = OneRow(REGISTRATION)


@frozen
class Registration:
    """The registration mode: REGISTRATION_MODE, until an admin sets another mode."""

    ledger: Ledger
    board: Board
    setting: Callable[[], str | None]

    def __attrs_post_init__(self) -> None:
        self.board.forget_at_start((MARK, ONLY))

    async def mode(self) -> str | None:
        """Return the mode set at run time, or REGISTRATION_MODE if none was set."""
        mark = await self.board.transact(
            lambda transaction: transaction.get(MARK, ONLY), near=[(MARK, ONLY)]
        )
        stored = None if mark is None else await self.ledger.read_snapshot(_STORED.get)
        return self.setting() if stored is None or stored.mark != mark else stored.mode

    def keep(self, tx: Connection, mode: str) -> str:
        """Store a mode and return its mark; the mode takes effect when ``begin`` gets the mark."""
        mark = hex_token(32)
        _STORED.put(tx, {"mode": mode, "mark": mark})
        return mark

    async def begin(self, mark: str) -> None:
        """Apply the mode for which ``keep`` returned this mark, until the host restarts."""
        await self.board.transact(lambda transaction: transaction.put(MARK, ONLY, mark))

    def end(self, tx: Connection) -> None:
        """Delete the stored mode: once ``tx`` commits, REGISTRATION_MODE is in force again."""
        _STORED.put(tx, None)
