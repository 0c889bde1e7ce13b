"""Request and reply shapes of moderation and of the audit log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, TypedDict

from attrs import frozen

from svcserver.kernel.digits import whole_in
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.roles import Role
from svcserver.kernel.shapes import pascal_case, plain_text, spelled, text
from svcserver.kernel.times import seconds_of
from svcserver.metagame.accounts.audit import NEWEST, AuditQuery
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.sanctions import MAX_NOTE, Kind, Sanction
from svcserver.metagame.accounts.wire import AuditRow, Reason, shown
from svcserver.metagame.owner.moderation.rules import Done, Order, order
from svcserver.metagame.owner.wire import SanctionEntry, Who, described

PAGE = 100
MAX_DIGITS = 18


@spelled(pascal_case)
@frozen
class SanctionWish:
    """The account by name or id; ``For`` like ``7d``, empty for a sanction without an end.

    ``Addresses``: also of everybody from where the account has logged in of late.
    """

    account: Who
    reason: Reason = ""
    note: Annotated[str, plain_text(0, MAX_NOTE)] = ""
    for_: Annotated[str, text(0, 16)] = ""
    addresses: bool = False

    def order(self) -> Order:
        """The value that the rules take; raises Malformed for a length of time that is none."""
        return order(self.reason, self.note, self.for_, addresses=self.addresses)


@spelled(pascal_case)
@frozen
class PersonWish:
    """The account by name or id, and why."""

    account: Who
    reason: Reason = ""


@spelled(pascal_case)
@frozen
class RoleWish:
    """The account by name or id, and its new role."""

    account: Who
    role: Literal["player", "helper", "moderator", "owner"]
    reason: Reason = ""


class PersonReply(TypedDict):
    """An account after an act: its role, and the sanction that the act left."""

    UserId: str
    Username: str
    Role: str
    Sanction: SanctionEntry | None


class ListedSanction(TypedDict):
    """A ban or a mute that holds, and whose it is."""

    UserId: str
    Username: str
    Kind: str
    Sanction: SanctionEntry


class SanctionList(TypedDict):
    """The bans and mutes that hold, the newest 500 of them first; ``count``: how many there are."""

    sanctions: list[ListedSanction]
    count: int


class AuditReply(TypedDict):
    """Rows, the newest first; ``next`` is the ``until`` of the page of older rows."""

    rows: list[AuditRow]
    next: int | None


def role_called(word: str) -> Role:
    """The role of a word that the shape has let through."""
    return Role[word.upper()]


def read_asked(
    now: float, actor: str | None, target: str | None, since: str | None, until: str | None
) -> AuditQuery:
    """Which rows a query wants: ``since`` like ``7d``, ``until`` an id. Raises Malformed."""
    span = seconds_of(since) if since else None
    if since and span is None:
        raise Malformed("since must be a length of time like 12h or 7d", code="bad_request")
    before = whole_in(until, MAX_DIGITS) if until else NEWEST
    if before is None:
        raise Malformed("until must be a whole number", code="bad_request")
    return AuditQuery(
        (actor or "")[:96],
        (target or "")[:128],
        0.0 if span is None else now - span,
        before,
        PAGE + 1,
    )


def show_done(done: Done) -> PersonReply:
    """The reply to an act."""
    after = None if done.change is None else done.change.after
    return {
        "UserId": done.account.id,
        "Username": done.account.username,
        "Role": done.account.role.word,
        "Sanction": described(after),
    }


def show_running(found: Iterable[tuple[Account, Kind, Sanction]], count: int) -> SanctionList:
    """The reply with sanctions that hold; ``count``: how many do."""
    return {
        "sanctions": [
            {
                "UserId": account.id,
                "Username": account.username,
                "Kind": kind.value,
                "Sanction": entry,
            }
            for account, kind, sanction in found
            if (entry := described(sanction)) is not None
        ],
        "count": count,
    }


def show_rows(found: Sequence[dict[str, Any]]) -> AuditReply:
    """The reply with a page; ``found`` has one row more where another page follows."""
    more = len(found) > PAGE
    return {
        "rows": [shown(one) for one in found[:PAGE]],
        "next": found[PAGE - 1]["id"] if more else None,
    }
