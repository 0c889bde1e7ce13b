"""The moderation rules: the permissions of each role and the effect of each action."""

from typing import Protocol

from attrs import evolve, frozen

from svcserver.kernel.foreign_text import NOT_PLAIN, is_plain
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Conflict, Forbidden, Malformed, Missing, Unauthenticated
from svcserver.kernel.roles import Role
from svcserver.kernel.times import seconds_of
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.accounts.rules import Account, EndedSessions
from svcserver.metagame.accounts.sanctions import (
    FOREVER,
    MAX_NOTE,
    MAX_REASON,
    Sanction,
    SanctionKind,
)


class AccountsAndRoles(Protocol):
    """The queries on accounts and roles that the rules need, within one transaction."""

    def find(self, account_id: object) -> Account | None: ...

    def named(self, username: str) -> Account | None: ...

    def owners(self) -> int: ...

    def set_role(self, account_id: AccountId, role: Role) -> None: ...


class Sanctions(Protocol):
    """The queries on bans and mutes that the rules need, within one transaction."""

    def find(self, account_id: AccountId, kind: SanctionKind) -> Sanction | None: ...

    def put(self, account_id: AccountId, kind: SanctionKind, sanction: Sanction) -> None: ...

    def drop(self, account_id: AccountId, kind: SanctionKind) -> None: ...

    def networks_of(self, account_id: AccountId, now: float) -> tuple[str, ...]: ...


@frozen
class SanctionOrder:
    """A requested ban or mute; ``seconds`` is None if it has no end.

    If ``addresses`` is true, the sanction also covers the addresses of the account's recent
    log-ins.
    """

    reason: str = ""
    note: str = ""
    seconds: int | None = None
    addresses: bool = False


@frozen
class SanctionChange:
    """The sanction before and after an action; None means that no sanction was in force."""

    account: Account
    before: Sanction | None
    after: Sanction | None


@frozen
class StaffActResult:
    """The result of a staff action; ``ended`` has the accounts whose sessions have ended."""

    account: Account
    change: SanctionChange | None = None
    ended: tuple[EndedSessions, ...] = ()


def sanction_order(reason: str, note: str, lasts: str, *, addresses: bool = False) -> SanctionOrder:
    """Return the order for a ban or mute, parsed from texts; raises Malformed.

    ``lasts`` is a duration like ``7d``, or empty for no end.
    """
    if len(reason) > MAX_REASON or len(note) > MAX_NOTE:
        raise Malformed(
            f"a reason may have at most {MAX_REASON} characters, and a note at most {MAX_NOTE}",
            code="bad_request",
        )
    if not (is_plain(reason) and is_plain(note)):
        raise Malformed(f"a reason or a note must not have {NOT_PLAIN}", code="bad_request")
    seconds = seconds_of(lasts) if lasts else None
    if lasts and seconds is None:
        raise Malformed(
            f"{lasts[:16]!r} is not a duration. Use a number and s, m, h, d or w, like 12h or 7d,"
            " up to ten years",
            code="bad_request",
        )
    return SanctionOrder(reason.strip(), note.strip(), seconds, addresses)


def person(accounts: AccountsAndRoles, who: str) -> Account:
    """Return the account with this name or id; raises Missing."""
    account = accounts.named(who) or accounts.find(who)
    if account is None:
        raise Missing(f"no account is called {who[:64]}", code="not_found")
    return account


def check_may_handle(staff: Staff, account: Account) -> None:
    """Raise Forbidden or Conflict if this staff member may not take action on the account."""
    if staff.role < Role.MODERATOR:
        raise Forbidden("this needs a moderator", code="forbidden")
    if account.role is Role.OWNER:
        raise Conflict(f"{account.username} is an owner: demote the account first", code="is_owner")
    if account.role >= staff.role:
        raise Forbidden(
            f"{account.username} is staff too: only an owner may do that", code="forbidden"
        )


def impose(
    sanctions: Sanctions,
    staff: Staff,
    account: Account,
    kind: SanctionKind,
    order: SanctionOrder,
    at: float,
) -> SanctionChange:
    """Ban or mute an account; the new sanction replaces a current sanction of the same kind."""
    check_may_handle(staff, account)
    before = _holding(sanctions, account, kind, at)
    ends_at = FOREVER if order.seconds is None else int(at) + order.seconds
    networks = sanctions.networks_of(account.id, at) if order.addresses else ()
    after = Sanction(order.reason, order.note, staff.name, int(at), ends_at, networks)
    sanctions.put(account.id, kind, after)
    return SanctionChange(account, before, after)


def lift(
    sanctions: Sanctions, staff: Staff, account: Account, kind: SanctionKind, at: float
) -> SanctionChange:
    """End a ban or mute now; raises Conflict if none is in force."""
    check_may_handle(staff, account)
    before = _holding(sanctions, account, kind, at)
    if before is None:
        word = "banned" if kind is SanctionKind.BAN else "muted"
        raise Conflict(f"{account.username} is not {word}", code=f"not_{word}")
    sanctions.drop(account.id, kind)
    return SanctionChange(account, before, None)


def set_role(
    accounts: AccountsAndRoles, staff: Staff, account: Account, role: Role, *, proven: bool
) -> Account:
    """Change an account's role and return the account.

    Raises Forbidden if ``staff`` is no owner, and Conflict if the last owner would lose that role.
    Raises Unauthenticated if the new role is higher than the old role and ``proven`` is false.
    """
    if staff.role < Role.OWNER:
        raise Forbidden("only an owner may give roles", code="forbidden")
    if account.role is Role.OWNER and role is not Role.OWNER and accounts.owners() <= 1:
        raise Conflict(
            f"{account.username} is the last owner: make another account an owner first",
            code="last_owner",
        )
    if role > account.role and not proven:
        raise Unauthenticated(
            f"This gives {account.username} more rights. Enter the key that you sign in with to"
            " confirm that.",
            code="key_wanted",
        )
    accounts.set_role(account.id, role)
    word = role.word if role in (Role.HELPER, Role.MODERATOR) else None
    return evolve(account, is_admin=role is Role.OWNER, staff_role=word)


def _holding(
    sanctions: Sanctions, account: Account, kind: SanctionKind, at: float
) -> Sanction | None:
    sanction = sanctions.find(account.id, kind)
    return sanction if sanction is not None and sanction.holds(at) else None
