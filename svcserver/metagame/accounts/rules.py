"""The rules for usernames, registration, invites and ending sessions.

Spec: 2 §4 Register; 1 §2 Account.
"""

import re
from typing import Literal, Protocol

from attrs import evolve, field, frozen

from svcserver.kernel.foreign_text import NOT_PLAIN, is_plain
from svcserver.kernel.ids import AccountId, new_account_id
from svcserver.kernel.refusals import Conflict, Malformed, Missing, Refusal, Unauthenticated
from svcserver.kernel.roles import Role, role_of
from svcserver.kernel.secrets import hex_token
from svcserver.kernel.system import choice

_NAME = "[A-Za-z0-9_]{3,16}"
USERNAME = re.compile(rf"{_NAME}\Z")
NAME_PATTERN = rf"^\s*{_NAME}\s*$"  # the same with surrounding spaces, for the OpenAPI document
MODES = ("NONE", "INVITECODE", "OPEN")
MAX_LOOKUP_NAME = 64
CODE_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
GENERATED_CODE = re.compile(f"[{CODE_ALPHABET}]{{4}}(-[{CODE_ALPHABET}]{{4}}){{2}}\\Z")
MAX_CODE = 128
MAX_CODE_USES = 2**31 - 1  # the column's maximum
InviteState = Literal["valid", "used_up", "expired", "unknown"]


class ServerFault(Refusal):
    """The error if the registration mode is unset or invalid: an empty 500 response."""

    status = 500


@frozen
class Account:
    """An account; ``notes`` is its stored balance in the main currency.

    Tokens issued before ``tokens_not_before`` (epoch seconds) are refused. Only log-ins and staff
    requests read ``banned_until`` (epoch seconds); elsewhere it is 0.
    """

    id: AccountId
    username: str
    is_admin: bool = False
    notes: int = 0
    tokens_not_before: int = 0
    staff_role: str | None = None
    banned_until: int = 0

    @property
    def role(self) -> Role:
        return role_of(self.staff_role, is_admin=self.is_admin)


@frozen
class NewAccount:
    """A newly registered account; its ``key`` is shown once and stored only as a hash."""

    account: Account
    key: str = field(repr=False)


@frozen
class InviteCode:
    """An invite code and its remaining uses; ``note`` is only for staff.

    ``made_at`` and ``expires_at`` are in epoch seconds. ``made_at`` is None if unknown;
    ``expires_at`` is None if the code never expires.
    """

    code: str = field(repr=False)
    uses_remaining: int
    infinite_uses: bool
    note: str = ""
    made_by: str = ""
    made_at: int | None = None
    expires_at: int | None = None

    @property
    def has_uses(self) -> bool:
        """True unless the code is used up."""
        return self.infinite_uses or self.uses_remaining > 0

    def is_usable(self, at: float) -> bool:
        """Return whether another account can be registered with the code."""
        return self.has_uses and (self.expires_at is None or at < self.expires_at)


@frozen
class EndedSessions:
    """An account's ended sessions: tokens before ``not_before`` (epoch seconds) are invalid."""

    account_id: AccountId
    not_before: int


class StoredAccounts(Protocol):
    """The stored accounts and invites, inside one transaction."""

    def name_is_taken(self, username: str, but_for: AccountId | None = None) -> bool: ...

    def find(self, account_id: AccountId) -> Account | None: ...

    def add(self, account: Account, key: str, at: float) -> None: ...

    def rename(self, account_id: AccountId, username: str) -> None: ...

    def set_not_before(self, account_id: AccountId, not_before: int) -> None: ...

    def invite(self, code: str) -> InviteCode | None: ...

    def spend(self, code: str) -> bool: ...

    def note_use(self, code: str, account_id: AccountId, at: float) -> None: ...


def username(text: object) -> str:
    """Return a valid username, trimmed; raises Malformed (``username_invalid``)."""
    if not isinstance(text, str):
        raise Malformed("Username must be a text", code="bad_request")
    name = text.strip()
    if not USERNAME.match(name):
        raise Malformed(
            "a username has 3 to 16 letters, digits or underscores", code="username_invalid"
        )
    return name


def open_for(mode: str | None) -> str:
    """Return the registration mode; raises an error if it is invalid or registration is closed."""
    if mode not in MODES:
        raise ServerFault("REGISTRATION_MODE must be NONE, INVITECODE or OPEN")
    if mode == "NONE":
        raise closed()
    return mode


def closed() -> Malformed:
    """Return the error for closed registration."""
    return Malformed("registration is closed", code="registration_closed")


def register(
    accounts: StoredAccounts,
    mode: str,
    name: str,
    code: str | None,
    at: float,
    *,
    is_admin: bool = False,
) -> NewAccount:
    """Register an account after checking the invite and the name; spend one use of the invite.

    If the name is taken, the invite is not used up. ``at`` is in epoch seconds.
    """
    spelled = check_registration(accounts, mode, name, code, at)
    if spelled is not None and not accounts.spend(spelled):
        raise _invite_invalid()
    created = NewAccount(Account(new_account_id(), name, is_admin), new_account_key())
    accounts.add(created.account, created.key, at)
    if spelled is not None:
        accounts.note_use(spelled, created.account.id, at)
    return created


def check_registration(
    accounts: StoredAccounts, mode: str, name: str, code: str | None, at: float
) -> str | None:
    """Check the code and the name; return the code as stored, or None if no code is required."""
    spelled = _usable_code(accounts, code, at) if mode == "INVITECODE" else None
    check_free(accounts, name)
    return spelled


def check_free(accounts: StoredAccounts, name: str) -> None:
    """Raise Conflict (``username_taken``) if an account has the name."""
    if accounts.name_is_taken(name):
        raise Conflict("another account has this name", code="username_taken")


def rename(
    accounts: StoredAccounts, account_id: AccountId | None, new: str
) -> tuple[Account, Account]:
    """Rename an account; return the account before and after.

    The new name may differ from the old name in letter case alone. Raises Missing or Conflict.
    """
    before = None if account_id is None else accounts.find(account_id)
    if before is None:
        raise Missing("no such account", code="not_found")
    if accounts.name_is_taken(new, but_for=before.id):
        raise Conflict("another account has this name", code="username_taken")
    accounts.rename(before.id, new)
    return before, evolve(before, username=new)


def end_sessions(accounts: StoredAccounts, account_id: AccountId, at: float) -> EndedSessions:
    """Invalidate the account's tokens issued at or before ``at``; raises Missing.

    Times are in epoch seconds. In the result, ``not_before`` is at least the next whole second.
    Each call increases ``not_before``, so that other processes notice the change.
    """
    account = accounts.find(account_id)
    if account is None:
        raise Missing("no such account", code="not_found")
    not_before = max(account.tokens_not_before, int(at)) + 1
    accounts.set_not_before(account.id, not_before)
    return EndedSessions(account.id, not_before)


def new_account_key() -> str:
    """Return a new account key: ``UUK_`` and 48 lowercase hex digits."""
    return f"UUK_{hex_token(48)}"


def new_invite_code() -> str:
    """Return a random code: three dash-separated groups of four from CODE_ALPHABET (60 bits)."""
    letters = "".join(choice(CODE_ALPHABET) for _ in range(12))
    return "-".join(letters[at : at + 4] for at in (0, 4, 8))


def own_invite(code: str, uses: int, *, infinite: bool) -> InviteCode:
    """Return an invite with a code that the owner chose; raises Malformed."""
    if not 1 <= len(code.strip()) <= MAX_CODE or not is_plain(code.strip()):
        raise Malformed(f"NewInviteCode must have 1 to {MAX_CODE} characters, without {NOT_PLAIN}")
    if not infinite and not 1 <= uses <= MAX_CODE_USES:
        raise Malformed("Uses must be a whole number of at least 1")
    return InviteCode(code.strip(), uses if uses <= MAX_CODE_USES else 0, infinite)


def first_group(code: str) -> str:
    """Return the first group of an invite code, the only part that may be logged."""
    return f"{code[:4]}-..." if len(code) > 8 else "..."


def invite_state(accounts: StoredAccounts, code: str, at: float) -> InviteState:
    """Return the state of a code: valid, used up, expired, or unknown."""
    invite = _find_invite(accounts, code)
    if invite is None:
        return "unknown"
    if not invite.has_uses:
        return "used_up"
    return "valid" if invite.is_usable(at) else "expired"


def _usable_code(accounts: StoredAccounts, code: str | None, at: float) -> str:
    """Return the code as stored; raises Unauthenticated if the code cannot be used."""
    invite = _find_invite(accounts, code)
    if invite is None or not invite.is_usable(at):
        raise _invite_invalid()
    return invite.code


def _find_invite(accounts: StoredAccounts, code: str | None) -> InviteCode | None:
    """Return the invite with this code, or None; a generated code may be sent in lower case."""
    offered = (code or "").strip()
    if not offered or len(offered) > MAX_CODE or "\0" in offered:
        return None
    invite = accounts.invite(offered)
    if invite is None and GENERATED_CODE.match(offered.upper()):
        invite = accounts.invite(offered.upper())
    return invite


def _invite_invalid() -> Unauthenticated:
    return Unauthenticated("the invite code is wrong or used up", code="invite_invalid")
