"""Registration and accounts as they are sent and shown. Spec: 2 §4 Management API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, NotRequired, TypedDict

from attrs import field, frozen

from svcserver.kernel.refusals import Malformed, Refusal
from svcserver.kernel.shapes import (
    Lenient,
    TextWithNul,
    pascal_case,
    sent_as,
    spelled,
    text_where,
)
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.entries import AccountEntry, entry
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.replies import worded
from svcserver.web.routes import Answer

PAGE = 100
MAX_OFFSET = 10_000_000
AnyId = Annotated[str, text_where(bool, "a text that is not empty")]


@spelled(pascal_case)
@frozen
class RegisterWish:
    """A new account; the code where registration wants one."""

    username: TextWithNul
    invite_code: TextWithNul | None = None


@spelled(pascal_case)
@frozen
class ModeWish:
    """One of the registration modes."""

    registration_status: Literal["OPEN", "INVITECODE", "NONE"]


@spelled(pascal_case)
@frozen
class RenameWish:
    """Who, by id or by name, and the new name."""

    new_username: TextWithNul
    user_id: Lenient[TextWithNul | None] = None
    username: Lenient[TextWithNul | None] = None


@frozen
class TokenWish:
    """Whose token."""

    account_id: AnyId = field(metadata=sent_as("UserId"))


class RegisterReply(TypedDict):
    """The only copy of the account key."""

    UUK: str


class UserInfo(TypedDict):
    """An account as its holder sees it."""

    UserId: str
    Username: str
    IsAdmin: bool


class ModeReply(TypedDict, total=False):
    """Nothing while no mode is set."""

    RegistrationMode: str


class NameReply(TypedDict):
    """Why not, where the name is not free."""

    available: bool
    error: NotRequired[str]
    message: NotRequired[str]


class UserEntry(TypedDict):
    """An account in the list of all."""

    Username: str
    UserId: str


class AllUsers(TypedDict):
    """By name."""

    Users: list[UserEntry]


class AccountPage(TypedDict):
    """Up to 100 by id, and where the next begins; null on the last page."""

    accounts: list[AccountEntry]
    nextOffset: int | None


class RenameReply(TypedDict):
    """The name before and the name now."""

    UserId: str
    OldUsername: str
    Username: str


class PlayerToken(TypedDict):
    """A player token for 24 hours."""

    JWT: str


def refuse_registration(status: int, refusal: Refusal) -> Answer:
    """``{error, message}``, but a bare 500 for the owner's own mistake."""
    return Answer(status) if isinstance(refusal, rules.ServerFault) else worded(status, refusal)


def read_offset(asked: str | None) -> int:
    """Where a page of accounts begins; raises Malformed."""
    if asked is None:
        return 0
    if not (asked.isascii() and asked.isdigit() and len(asked) <= 8) or int(asked) > MAX_OFFSET:
        raise Malformed("offset must be a whole number up to 10000000")
    return int(asked)


def show_mode(mode: str | None) -> ModeReply:
    """The registration mode."""
    return {} if mode is None else {"RegistrationMode": mode}


def show_users(accounts: Iterable[Account]) -> AllUsers:
    """Every account's name and id."""
    return {"Users": [{"Username": one.username, "UserId": one.id} for one in accounts]}


def show_page(found: Sequence[tuple[Account, str | None]], offset: int) -> AccountPage:
    """``found`` holds one more than a page where another follows."""
    shown = [entry(one.id, one.username, one.is_admin, key) for one, key in found[:PAGE]]
    return {"accounts": shown, "nextOffset": offset + PAGE if len(found) > PAGE else None}


def show_rename(before: Account, after: Account) -> RenameReply:
    """What was renamed."""
    return {"UserId": after.id, "OldUsername": before.username, "Username": after.username}


def show_free(why_not: Refusal | None) -> NameReply:
    """Whether a name could be taken."""
    if why_not is None:
        return {"available": True}
    return {"available": False, "error": why_not.code, "message": why_not.message}
