"""Request and reply shapes of the pages about accounts."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import Moment, pascal_case, spelled
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.sanctions import SanctionKind
from svcserver.metagame.accounts.wire import FINGERPRINT, Reason
from svcserver.metagame.owner.people import rules
from svcserver.metagame.owner.wire import AccountExport, SanctionEntry, Who, described
from svcserver.metagame.play.presence.rules import Place

PAGE = 50
MAX_TEXT = 64


class ListedReply(TypedDict):
    """An account in a list; ``where`` is null if the player is not online."""

    id: str
    name: str
    role: str
    lastSeen: Moment | None
    where: str | None
    banned: bool
    muted: bool


class PeopleReply(TypedDict):
    """A page of accounts, and the offset of the next page (null on the last page)."""

    accounts: list[ListedReply]
    nextOffset: int | None


class PersonView(TypedDict):
    """Everything that staff may see about an account."""

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
class AccountRequest:
    """The account's name or id, and the reason."""

    account: Who
    reason: Reason = ""


@spelled(pascal_case)
@frozen
class DeleteRequest:
    """The account to delete; if ``Export`` is true, the reply has the account's data."""

    account: Who
    reason: Reason = ""
    export: bool = True


@spelled(pascal_case)
@frozen
class MergeRequest:
    """The account from which the notes are taken, and the account that gets them."""

    account: Who
    to: Who
    reason: Reason = ""


class NewKey(TypedDict):
    """The only copy of the account's new key."""

    Username: str
    Key: str


class Merged(TypedDict):
    """The result of a merge; ``Moved`` is the number of notes that ``To`` got from ``Username``."""

    Username: str
    To: str
    Moved: int


class Deleted(TypedDict):
    """The deleted account and its data; ``Export`` is null if it was not requested."""

    Username: str
    Export: AccountExport | None


def read_text(argument: str | None) -> str:
    """Return the search text from the query; raises Malformed."""
    text = (argument or "").strip()
    if len(text) > MAX_TEXT:
        raise Malformed(f"Text may have at most {MAX_TEXT} characters", code="bad_request")
    return text


def read_order(text: str | None) -> rules.SortOrder:
    """Return the sort order given by ``text``, or NAME if there is none; raises Malformed."""
    try:
        return rules.SortOrder(text or rules.SortOrder.NAME)
    except ValueError:
        raise Malformed("the field Sort must be name, seen or role", code="bad_request") from None


def read_filter(text: str | None) -> rules.AccountFilter:
    """Return the account filter given by ``text``, or ALL if there is none; raises Malformed."""
    try:
        return rules.AccountFilter(text or rules.AccountFilter.ALL)
    except ValueError:
        why = "the field Only must be all, staff, banned or muted"
        raise Malformed(why, code="bad_request") from None


def show_list(
    accounts: Sequence[rules.ListedAccount], where: Mapping[AccountId, Place], offset: int
) -> PeopleReply:
    """Return the reply with a page of accounts.

    If another page follows, ``accounts`` has one entry more than the page.
    """
    return {
        "accounts": [
            {
                "id": entry.account.id,
                "name": entry.account.username,
                "role": entry.account.role.word,
                "lastSeen": None if entry.seen_at is None else iso(entry.seen_at),
                "where": _place(where, entry.account.id),
                "banned": SanctionKind.BAN in entry.sanctions,
                "muted": SanctionKind.MUTE in entry.sanctions,
            }
            for entry in accounts[:PAGE]
        ],
        "nextOffset": offset + PAGE if len(accounts) > PAGE else None,
    }


def show_person(details: rules.AccountDetails, where: Mapping[AccountId, Place]) -> PersonView:
    """Return the reply with one account."""
    return {
        "id": details.account.id,
        "name": details.account.username,
        "role": details.account.role.word,
        "createdAt": iso(details.created_at),
        "lastSeen": None if details.seen_at is None else iso(details.seen_at),
        "where": _place(where, details.account.id),
        "keyFingerprint": None if details.key_hash is None else details.key_hash[:FINGERPRINT],
        "notes": details.account.notes,
        "ban": described(details.sanctions.get(SanctionKind.BAN)),
        "mute": described(details.sanctions.get(SanctionKind.MUTE)),
    }


def _place(where: Mapping[AccountId, Place], account_id: AccountId) -> str | None:
    place = where.get(account_id)
    return None if place is None else place.value
