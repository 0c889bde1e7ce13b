"""A helper that creates accounts for tests of rules that need existing accounts."""

from collections.abc import Iterable

from sqlalchemy import Connection

from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.store import SqlAccounts


def add_accounts(tx: Connection, account_ids: Iterable[str]) -> None:
    """Add one account per id; the name equals the id."""
    for account_id in account_ids:
        SqlAccounts(tx).add(Account(account_id, account_id), f"key of {account_id}", 0)
