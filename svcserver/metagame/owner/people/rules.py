"""Values of the pages about people."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from attrs import frozen

from svcserver.kernel.refusals import Conflict, Forbidden
from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import Staff
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


def check_owner(staff: Staff) -> None:
    """Raise where this member of staff may not take over or remove accounts."""
    if staff.role < Role.OWNER:
        raise Forbidden("only an owner may do this", code="forbidden")


def check_merge(source: Account, target: Account) -> None:
    """Raise where there is nothing to move, or nowhere."""
    if source.id == target.id:
        raise Conflict("these are the same account", code="same_account")
    if source.notes <= 0:
        raise Conflict(f"{source.username} has no notes", code="no_notes")


def check_deletable(account: Account, leads: str) -> None:
    """Raise where others would lose something; ``leads`` is the guild that the account leads."""
    if account.role is Role.OWNER:
        raise Conflict(f"{account.username} is an owner: demote the account first", code="is_owner")
    if leads:
        raise Conflict(
            f"{account.username} leads the guild {leads}: let another lead it, or disband it",
            code="leads_guild",
        )
