"""Values of the pages about people."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from attrs import frozen

from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.sanctions import Kind, Sanction


class Order(StrEnum):
    """By what a list of accounts is sorted."""

    NAME = "name"
    SEEN = "seen"  # the last seen first
    ROLE = "role"  # owners first


@frozen
class Listed:
    """An account in a list; ``seen_at`` in epoch seconds, None where it never was."""

    account: Account
    seen_at: int | None
    sanctions: frozenset[Kind] = frozenset()


@frozen
class Person:
    """All that staff sees of an account; times in epoch seconds."""

    account: Account
    created_at: int
    seen_at: int | None
    key_hash: str | None
    sanctions: Mapping[Kind, Sanction]
