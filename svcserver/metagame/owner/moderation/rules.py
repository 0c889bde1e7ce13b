"""Who of the staff may do what to whom, and what it does. Values in, values out."""

from __future__ import annotations

from typing import Protocol

from attrs import evolve, frozen

from svcserver.kernel.foreign_text import NOT_PLAIN, is_plain
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Conflict, Forbidden, Malformed, Missing
from svcserver.kernel.roles import Role
from svcserver.kernel.times import seconds_of
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.accounts.rules import Account, Ended
from svcserver.metagame.accounts.sanctions import FOREVER, MAX_NOTE, MAX_REASON, Kind, Sanction


class AccountsAndRoles(Protocol):
    """What the rules ask about accounts, inside one transaction."""

    def find(self, account_id: object) -> Account | None: ...

    def named(self, username: str) -> Account | None: ...

    def owners(self) -> int: ...

    def set_role(self, account_id: AccountId, role: Role) -> None: ...


class Sanctions(Protocol):
    """Bans and mutes, inside one transaction."""

    def find(self, account_id: AccountId, kind: Kind) -> Sanction | None: ...

    def put(self, account_id: AccountId, kind: Kind, sanction: Sanction) -> None: ...

    def drop(self, account_id: AccountId, kind: Kind) -> None: ...

    def networks_of(self, account_id: AccountId, now: float) -> tuple[str, ...]: ...


@frozen
class Order:
    """A ban or a mute as asked for; ``seconds`` is None for one without an end.

    ``addresses``: it is also of everybody from where the account has logged in of late.
    """

    reason: str = ""
    note: str = ""
    seconds: int | None = None
    addresses: bool = False


@frozen
class Change:
    """A sanction before and after an act; None where there is none that holds."""

    account: Account
    before: Sanction | None
    after: Sanction | None


@frozen
class Done:
    """What an act of staff has done; ``ended``: whose sessions, the account's own first."""

    account: Account
    change: Change | None = None
    ended: tuple[Ended, ...] = ()


def order(reason: str, note: str, lasts: str, *, addresses: bool = False) -> Order:
    """An order from its texts; ``lasts`` like ``7d``, empty for ever. Raises Malformed."""
    if len(reason) > MAX_REASON or len(note) > MAX_NOTE:
        raise Malformed(
            f"a reason has at most {MAX_REASON} characters, a note {MAX_NOTE}", code="bad_request"
        )
    if not (is_plain(reason) and is_plain(note)):
        raise Malformed(f"a reason or a note has no {NOT_PLAIN}", code="bad_request")
    seconds = seconds_of(lasts) if lasts else None
    if lasts and seconds is None:
        raise Malformed(
            f"{lasts[:16]!r} is no length of time: a number and s, m, h, d or w, like 12h or 7d,"
            " up to ten years",
            code="bad_request",
        )
    return Order(reason.strip(), note.strip(), seconds, addresses)


def person(accounts: AccountsAndRoles, who: str) -> Account:
    """The account of that name or id; raises Missing."""
    found = accounts.named(who) or accounts.find(who)
    if found is None:
        raise Missing(f"no account is called {who[:64]}", code="not_found")
    return found


def check_may_handle(staff: Staff, account: Account) -> None:
    """Raise where this member of staff may not sanction this account."""
    if staff.role < Role.MODERATOR:
        raise Forbidden("this needs a moderator", code="forbidden")
    if account.role is Role.OWNER:
        raise Conflict(f"{account.username} is an owner: demote the account first", code="is_owner")
    if account.role >= staff.role:
        raise Forbidden(
            f"{account.username} is staff too: only an owner may do that", code="forbidden"
        )


def impose(
    sanctions: Sanctions, staff: Staff, account: Account, kind: Kind, asked: Order, at: float
) -> Change:
    """Ban or mute; a sanction that holds is replaced."""
    check_may_handle(staff, account)
    before = _holding(sanctions, account, kind, at)
    ends_at = FOREVER if asked.seconds is None else int(at) + asked.seconds
    networks = sanctions.networks_of(account.id, at) if asked.addresses else ()
    after = Sanction(asked.reason, asked.note, staff.name, int(at), ends_at, networks)
    sanctions.put(account.id, kind, after)
    return Change(account, before, after)


def lift(sanctions: Sanctions, staff: Staff, account: Account, kind: Kind, at: float) -> Change:
    """End a ban or a mute now; raises Conflict where there is none."""
    check_may_handle(staff, account)
    before = _holding(sanctions, account, kind, at)
    if before is None:
        word = "banned" if kind is Kind.BAN else "muted"
        raise Conflict(f"{account.username} is not {word}", code=f"not_{word}")
    sanctions.drop(account.id, kind)
    return Change(account, before, None)


def set_role(accounts: AccountsAndRoles, staff: Staff, account: Account, role: Role) -> Account:
    """Give an account another role; there is always an owner. Returns it as it is then."""
    if staff.role < Role.OWNER:
        raise Forbidden("only an owner gives roles", code="forbidden")
    if account.role is Role.OWNER and role is not Role.OWNER and accounts.owners() <= 1:
        raise Conflict(
            f"{account.username} is the last owner: make another account an owner first",
            code="last_owner",
        )
    accounts.set_role(account.id, role)
    word = role.word if role in (Role.HELPER, Role.MODERATOR) else None
    return evolve(account, is_admin=role is Role.OWNER, staff_role=word)


def _holding(sanctions: Sanctions, account: Account, kind: Kind, at: float) -> Sanction | None:
    found = sanctions.find(account.id, kind)
    return found if found is not None and found.holds(at) else None
