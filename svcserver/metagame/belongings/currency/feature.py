"""An account's balances in all currencies. Spec: 1 §2 Currency table, §4 reconcile."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypedDict

import sqlalchemy as sa
from attrs import frozen

from svcserver.db.ledger import Ledger
from svcserver.kernel import datafiles
from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.accounts.store import ACCOUNTS
from svcserver.metagame.belongings.currency.rules import LOWER, UPPER, Currencies
from svcserver.metagame.belongings.inventory.store import ACTIVE_CHARACTER, ITEM_STACKS
from svcserver.metagame.once import Again
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import Answer, Feature, bare

PACKAGE, FILE = "svcserver.metagame.belongings.currency", "currencies.json"
KEYS = 52


def load() -> Currencies:
    """Load the currencies from the data file; raises BadData."""
    return datafiles.load(PACKAGE, FILE, _currencies)


def _currencies(data: dict[str, Any]) -> Currencies:
    keys, notes, fixed = data.get("keys"), data.get("notes"), data.get("without_stack")
    if not isinstance(keys, list) or not all(isinstance(name, str) for name in keys):
        raise ValueError('"keys" must be a list of strings')
    names = {name.removeprefix(UPPER) for name in keys if re.fullmatch(f"{UPPER}[A-Z0-9_]+", name)}
    twins = {UPPER + name for name in names} | {LOWER + name.lower() for name in names}
    if len(keys) != KEYS or set(keys) != twins:
        raise ValueError(
            f'"keys" must contain {UPPER}NAME and {LOWER}name for each of the {KEYS // 2} '
            "currencies, and no other entries"
        )
    if (
        not isinstance(notes, str)
        or notes not in names
        or not isinstance(fixed, dict)
        or not fixed.keys() <= names
    ):
        raise ValueError(
            'the value of "notes" and every key in "without_stack" must be the name of a currency'
        )
    if any(type(name) is not int or name < 0 for name in fixed.values()):
        raise ValueError('each value in "without_stack" must be a whole number, 0 or higher')
    spellings = {UPPER + name: (UPPER + name, LOWER + name.lower()) for name in names}
    values = {key: fixed[name] for name in fixed for key in spellings[UPPER + name]}
    return Currencies(
        {key: values.get(key, 0) for key in keys}, spellings, spellings[UPPER + notes]
    )


class ReconcileReply(TypedDict):
    """The main currency's balance; ``refreshInventory`` makes the client reload the inventory."""

    balances: dict[str, int]
    refreshInventory: bool


@frozen
class CurrencyActs:
    """The operations that return balances."""

    currencies: Currencies
    read_balance: Callable[[sa.Connection, AccountId], Balance]
    ledger: Ledger

    @classmethod
    def load_currencies(cls, ledger: Ledger, *, from_inventory: bool) -> CurrencyActs:
        """Return the operations; ``from_inventory`` is BALANCE_FROM_INVENTORY. Raises BadData."""
        currencies = load()
        read_balance = balance_reader(currencies.spellings) if from_inventory else notes_alone
        return cls(currencies, read_balance, ledger)

    async def balance(self, me: AccountId) -> dict[str, int]:
        """Return a dict from each currency key to the account's balance."""
        return self.currencies.filled(
            *await self.ledger.read_snapshot(lambda tx: self.read_balance(tx, me))
        )

    async def reconciled(self, me: AccountId) -> dict[str, int]:
        """Return the account's balance in the main currency, under both keys of that currency."""
        return self.currencies.reconciled(
            *await self.ledger.read_snapshot(lambda tx: self.read_balance(tx, me))
        )


_A, _S = ACCOUNTS.c, ITEM_STACKS.c
_NOTES = sa.select(_A.notes).where(_A.id == sa.bindparam("account"))

Balance = tuple[int, list[tuple[str, int]]]
"""The account's ``notes`` column, and its active character's currency stacks."""


def balance_reader(catalog_ids: Iterable[str]) -> Callable[[sa.Connection, AccountId], Balance]:
    """Return a function that reads an account's balances in these currencies with one query."""
    # literals, not parameters: our data file has only few, validated names
    names: list[Any] = [sa.literal_column(f"'{name}'") for name in sorted(catalog_ids)]
    statement = (
        sa.select(_A.notes, _S.catalog_id, _S.quantity)
        .select_from(
            ACCOUNTS.outerjoin(
                ITEM_STACKS,
                sa.and_(
                    _S.character_id == ACTIVE_CHARACTER.scalar_subquery(),
                    _S.catalog_id.in_(names),
                ),
            )
        )
        .where(_A.id == sa.bindparam("account"))
    )

    def read(tx: sa.Connection, account_id: AccountId) -> Balance:
        rows = tx.execute(statement, {"account": account_id}).all()
        if not rows:
            return 0, []
        return rows[0][0], [(row[1], row[2]) for row in rows if row[1] is not None]

    return read


def notes_alone(tx: sa.Connection, account_id: AccountId) -> Balance:
    """Return the account's notes (its balance in the main currency), and an empty list of stacks.

    This is the query for BALANCE_FROM_INVENTORY=0.
    """
    return tx.execute(_NOTES, {"account": account_id}).scalar() or 0, []


@frozen
class CurrencyRoutes:
    """The routes for an account's balances."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    acts: CurrencyActs

    @routes.row("GET", "/balance", reply=dict[str, int])
    async def balance(self, call: Call) -> Answer:
        """Return the caller's balance for each of 52 currency keys, always in the same order."""
        return Answer(200, await self.acts.balance(call.player))

    @routes.row("POST", "/reconcile", reply=ReconcileReply, again=Again.NATURAL)
    async def reconcile(self, call: Call) -> Answer:
        """Return the main currency's balance under both of its keys. The body is ignored."""
        return Answer(
            200, {"balances": await self.acts.reconciled(call.player), "refreshInventory": True}
        )


def currency(parts: Parts) -> Iterator[Feature]:
    """Yield the routes of balances; raises BadData."""
    in_inventory = parts.settings.balance_from_inventory
    yield CurrencyRoutes(CurrencyActs.load_currencies(parts.ledger, from_inventory=in_inventory))
