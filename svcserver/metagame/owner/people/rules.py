"""The data classes and checks of the dashboard's pages about accounts."""

from collections.abc import Mapping
from enum import StrEnum

from attrs import frozen

from svcserver.kernel.refusals import Conflict, Forbidden, Unauthenticated
from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.sanctions import Sanction, SanctionKind


class SortOrder(StrEnum):
    """The sort order of a list of accounts."""

    NAME = "name"
    LAST_SEEN = "seen"  # last seen first
    ROLE = "role"  # owners first


class AccountFilter(StrEnum):
    """The accounts that a list is limited to."""

    ALL = "all"
    STAFF = "staff"
    BANNED = "banned"
    MUTED = "muted"


@frozen
class ListedAccount:
    """An account in a list; ``seen_at`` is in epoch seconds, None if the player was never seen."""

    account: Account
    seen_at: int | None
    sanctions: frozenset[SanctionKind] = frozenset()


@frozen
class AccountDetails:
    """Everything that staff may see about an account; times are in epoch seconds."""

    account: Account
    created_at: int
    seen_at: int | None
    key_hash: str | None
    sanctions: Mapping[SanctionKind, Sanction]


def check_owner(staff: Staff) -> None:
    """Raise Forbidden unless this staff member is an owner."""
    if staff.role < Role.OWNER:
        raise Forbidden("only an owner may do this", code="forbidden")


def check_new_key(*, proven: bool) -> None:
    """Raise Unauthenticated if ``proven`` is false.

    A key outlasts a session, so a stolen session must not suffice to get a new key.
    """
    if not proven:
        raise Unauthenticated(
            "Enter the key that you sign in with to give an account a new key.", code="key_wanted"
        )


def check_merge(source: Account, target: Account) -> None:
    """Raise Conflict if both accounts are the same, or if ``source`` has no notes (currency)."""
    if source.id == target.id:
        raise Conflict("these are the same account", code="same_account")
    if source.notes <= 0:
        raise Conflict(f"{source.username} has no notes", code="no_notes")


def check_deletable(account: Account, leads: str) -> None:
    """Raise Conflict if the account is an owner or leads a guild; ``leads`` is the guild's name."""
    if account.role is Role.OWNER:
        raise Conflict(f"{account.username} is an owner: demote the account first", code="is_owner")
    if leads:
        raise Conflict(
            f"{account.username} leads the guild {leads}: make another member the leader, or "
            "disband the guild",
            code="leads_guild",
        )
