"""Request and reply shapes of the pages about people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import Moment, pascal_case, spelled
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.sanctions import Kind
from svcserver.metagame.accounts.wire import FINGERPRINT, Reason
from svcserver.metagame.owner.people.rules import Listed, Order, Person
from svcserver.metagame.owner.wire import AccountExport, SanctionEntry, Who, described
from svcserver.metagame.play.presence.rules import Place

PAGE = 50
MAX_TEXT = 64


class ListedReply(TypedDict):
    """An account in a list; ``where`` is null for one that is not online."""

    id: str
    name: str
    role: str
    lastSeen: Moment | None
    where: str | None
    banned: bool
    muted: bool


class PeopleReply(TypedDict):
    """A page of accounts, and the offset of the next; null on the last."""

    accounts: list[ListedReply]
    nextOffset: int | None


class PersonView(TypedDict):
    """All that staff sees of an account; ``notes`` is the main currency."""

    id: str
    name: str
    role: str
    createdAt: Moment
    lastSeen: Moment | None
    where: str | None
    keyFingerprint: str | None
    notes: int
    ban: SanctionEntry | None
    mute: SanctionEntry | None


@spelled(pascal_case)
@frozen
class AccountWish:
    """The account by name or id, and why."""

    account: Who
    reason: Reason = ""


@spelled(pascal_case)
@frozen
class DeleteWish:
    """The account by name or id, and why; without ``Export`` where that was handed out before."""

    account: Who
    reason: Reason = ""
    export: bool = True


@spelled(pascal_case)
@frozen
class MergeWish:
    """The account whose notes are moved, and the one that gets them."""

    account: Who
    to: Who
    reason: Reason = ""


class NewKey(TypedDict):
    """The only copy of the account's new key."""

    Username: str
    Key: str


class Merged(TypedDict):
    """How many notes were moved, and to whom."""

    Username: str
    To: str
    Moved: int


class Deleted(TypedDict):
    """Whose account was deleted, and all that was kept of it; null where nobody asked for that."""

    Username: str
    Export: AccountExport | None


def read_text(asked: str | None) -> str:
    """What names and ids shall hold; raises Malformed."""
    text = (asked or "").strip()
    if len(text) > MAX_TEXT:
        raise Malformed(f"Text has at most {MAX_TEXT} characters", code="bad_request")
    return text


def read_order(text: str | None) -> Order:
    """The order of a list; by name where none is named. Raises Malformed."""
    try:
        return Order(text or Order.NAME)
    except ValueError:
        raise Malformed("Sort must be name, seen or role", code="bad_request") from None


def show_list(
    found: Sequence[Listed], where: Mapping[AccountId, Place], offset: int
) -> PeopleReply:
    """The reply with a page; ``found`` holds one more where another page follows."""
    return {
        "accounts": [
            {
                "id": one.account.id,
                "name": one.account.username,
                "role": one.account.role.word,
                "lastSeen": None if one.seen_at is None else iso(one.seen_at),
                "where": _place(where, one.account.id),
                "banned": Kind.BAN in one.sanctions,
                "muted": Kind.MUTE in one.sanctions,
            }
            for one in found[:PAGE]
        ],
        "nextOffset": offset + PAGE if len(found) > PAGE else None,
    }


def show_person(one: Person, where: Mapping[AccountId, Place]) -> PersonView:
    """The reply with one account."""
    return {
        "id": one.account.id,
        "name": one.account.username,
        "role": one.account.role.word,
        "createdAt": iso(one.created_at),
        "lastSeen": None if one.seen_at is None else iso(one.seen_at),
        "where": _place(where, one.account.id),
        "keyFingerprint": None if one.key_hash is None else one.key_hash[:FINGERPRINT],
        "notes": one.account.notes,
        "ban": described(one.sanctions.get(Kind.BAN)),
        "mute": described(one.sanctions.get(Kind.MUTE)),
    }


def _place(where: Mapping[AccountId, Place], account_id: AccountId) -> str | None:
    found = where.get(account_id)
    return None if found is None else found.value
