"""Request and reply shapes of registration and accounts. Spec: 2 §4 Management API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, NotRequired, TypedDict

from attrs import field, frozen

from svcserver.kernel.refusals import Malformed, Refusal
from svcserver.kernel.shapes import (
    Documented,
    Lenient,
    TextWithNul,
    pascal_case,
    sent_as,
    spelled,
    text_where,
)
from svcserver.metagame.accounts.rules import NAME_PATTERN, Account, InviteState
from svcserver.metagame.accounts.wire import AccountEntry, Reason, entry

PAGE = 100  # accounts per page
NewName = Annotated[TextWithNul, Documented({"pattern": NAME_PATTERN})]
AnyId = Annotated[str, text_where(bool, "a text that is not empty")]


@spelled(pascal_case)
@frozen
class RegisterRequest:
    """The account to register, with an invite code if the registration mode requires one."""

    username: NewName
    invite_code: TextWithNul | None = None


@spelled(pascal_case)
@frozen
class InviteQuestion:
    """The invite code to check."""

    invite_code: TextWithNul


@spelled(pascal_case)
@frozen
class ModeRequest:
    """The new registration mode: open to all, only with an invite code, or closed."""

    registration_status: Literal["OPEN", "INVITECODE", "NONE"]
    reason: Reason = ""


@spelled(pascal_case)
@frozen
class RenameRequest:
    """The account to rename (its id or its name), and the new name."""

    new_username: NewName
    user_id: Lenient[TextWithNul | None] = None
    username: Lenient[TextWithNul | None] = None
    reason: Reason = ""

    def checked(self) -> RenameRequest:
        """Return the request; raises Malformed if it has neither an id nor a name."""
        if self.user_id is None and self.username is None:
            raise Malformed("UserId or Username is required, and NewUsername", code="bad_request")
        return self


@frozen
class TokenRequest:
    """The account for which to make a token."""

    account_id: AnyId = field(metadata=sent_as("UserId"))
    reason: Reason = field(default="", metadata=sent_as("Reason"))


class RegisterReply(TypedDict):
    """The reply with the only copy of the account key, in the field that the client expects."""

    UUK: str


class UserInfo(TypedDict):
    """The account to which a key belongs."""

    UserId: str
    Username: str
    IsAdmin: bool


class ModeReply(TypedDict, total=False):
    """The registration mode; the reply is ``{}`` if the owner has not set a mode."""

    RegistrationMode: str


class NameReply(TypedDict):
    """The reply about a name: whether it is available, and the reason if not."""

    available: bool
    error: NotRequired[str]
    message: NotRequired[str]


class InviteReply(TypedDict):
    """The state of an invite code; if the host requires no code, every code counts as valid."""

    invite: InviteState


class UserEntry(TypedDict):
    """An account's name and id."""

    Username: str
    UserId: str


class AllUsers(TypedDict):
    """The names and ids of all accounts."""

    Users: list[UserEntry]


class AccountPage(TypedDict):
    """Up to 100 accounts in id order, and the offset of the next page (null on the last page)."""

    accounts: list[AccountEntry]
    nextOffset: int | None


class RenameReply(TypedDict):
    """The old and the new name of a renamed account."""

    UserId: str
    OldUsername: str
    Username: str


class PlayerToken(TypedDict):
    """A player token that a staff member requested; it is valid for 24 hours."""

    JWT: str


def show_mode(mode: str | None) -> ModeReply:
    """Return the reply with the registration mode."""
    return {} if mode is None else {"RegistrationMode": mode}


def show_users(accounts: Iterable[Account]) -> AllUsers:
    """Return the names and ids of all accounts."""
    return {"Users": [{"Username": account.username, "UserId": account.id} for account in accounts]}


def show_page(page: Sequence[tuple[Account, str | None]], offset: int) -> AccountPage:
    """Return the reply with a page of accounts.

    ``page`` has up to PAGE + 1 entries; the extra entry shows that another page follows.
    """
    shown = [
        entry(account.id, account.username, account.is_admin, key) for account, key in page[:PAGE]
    ]
    return {"accounts": shown, "nextOffset": offset + PAGE if len(page) > PAGE else None}


def show_rename(before: Account, after: Account) -> RenameReply:
    """Return the reply with an account's old and new name."""
    return {"UserId": after.id, "OldUsername": before.username, "Username": after.username}


def show_free(why_not: Refusal | None) -> NameReply:
    """Return the reply about a name's availability; ``why_not`` is the error, if any."""
    if why_not is None:
        return {"available": True}
    return {"available": False, "error": why_not.code, "message": why_not.message}
