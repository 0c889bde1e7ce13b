"""The balance of an account, in one statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Connection, and_, bindparam, literal_column, select

from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.store import ACCOUNTS
from svcserver.metagame.belongings.inventory.store import ACTIVE_CHARACTER, ITEM_STACKS

_A, _S = ACCOUNTS.c, ITEM_STACKS.c
_NOTES = select(_A.notes).where(_A.id == bindparam("account"))

Balance = tuple[int, list[tuple[str, int]]]
"""The account's ``notes`` column, and its active character's currency stacks."""


def balance_reader(catalog_ids: Iterable[str]) -> Callable[[Connection, AccountId], Balance]:
    """A function that reads an account's balance in these currencies with one statement."""
    # literals, not parameters: they are few, and validated names of our data file
    names: list[Any] = [literal_column(f"'{one}'") for one in sorted(catalog_ids)]
    statement = (
        select(_A.notes, _S.catalog_id, _S.quantity)
        .select_from(
            ACCOUNTS.outerjoin(
                ITEM_STACKS,
                and_(
                    _S.character_id == ACTIVE_CHARACTER.scalar_subquery(),
                    _S.catalog_id.in_(names),
                ),
            )
        )
        .where(_A.id == bindparam("account"))
    )

    def read(tx: Connection, account_id: AccountId) -> Balance:
        rows = tx.execute(statement, {"account": account_id}).all()
        if not rows:
            return 0, []
        return rows[0][0], [(row[1], row[2]) for row in rows if row[1] is not None]

    return read


def notes_alone(tx: Connection, account_id: AccountId) -> Balance:
    """The ``notes`` column without any stack, for BALANCE_FROM_INVENTORY=0."""
    return tx.execute(_NOTES, {"account": account_id}).scalar() or 0, []
