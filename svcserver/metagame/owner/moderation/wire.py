"""Request and reply shapes of moderation and of the audit log."""

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
from svcserver.metagame.accounts.sanctions import MAX_NOTE, Sanction, SanctionKind
from svcserver.metagame.accounts.wire import AuditRow, Reason, shown
from svcserver.metagame.owner.moderation.rules import SanctionOrder, StaffActResult, sanction_order
from svcserver.metagame.owner.wire import SanctionEntry, Who, described

PAGE = 100
MAX_DIGITS = 18


@spelled(pascal_case)
@frozen
class SanctionRequest:
    """A ban or mute; ``Account`` is the name or id of the account.

    ``For`` is a duration like ``7d``; if it is empty, the sanction has no end. If ``Addresses`` is
    true, the sanction also covers the addresses of the account's recent log-ins.
    """

    account: Who
    reason: Reason = ""
    note: Annotated[str, plain_text(0, MAX_NOTE)] = ""
    for_: Annotated[str, text(0, 16)] = ""
    addresses: bool = False

    def order(self) -> SanctionOrder:
        """Return this request as a SanctionOrder; raises Malformed for an invalid duration."""
        return sanction_order(self.reason, self.note, self.for_, addresses=self.addresses)


@spelled(pascal_case)
@frozen
class PersonRequest:
    """The account's name or id, and the reason."""

    account: Who
    reason: Reason = ""


@spelled(pascal_case)
@frozen
class RoleRequest:
    """The account's name or id, and its new role."""

    account: Who
    role: Literal["player", "helper", "moderator", "owner"]
    reason: Reason = ""


class PersonReply(TypedDict):
    """An account after an action, with its role, and with its ban or mute if any."""

    UserId: str
    Username: str
    Role: str
    Sanction: SanctionEntry | None


class ListedSanction(TypedDict):
    """A current ban or mute, with its account."""

    UserId: str
    Username: str
    Kind: str
    Sanction: SanctionEntry


class SanctionList(TypedDict):
    """The newest 500 of the current bans and mutes; ``count`` is the number of all current ones."""

    sanctions: list[ListedSanction]
    count: int


class AuditReply(TypedDict):
    """Audit rows, newest first; pass ``next`` as ``until`` to get the next page."""

    rows: list[AuditRow]
    next: int | None


def role_called(word: str) -> Role:
    """Return the role with this name; the name must be valid."""
    return Role[word.upper()]


def read_query(
    now: float, actor: str | None, target: str | None, since: str | None, until: str | None
) -> AuditQuery:
    """Return the audit-log query; raises Malformed.

    ``since`` is a duration like ``7d``. ``until`` is the field ``next`` of the previous page.
    """
    span = seconds_of(since) if since else None
    if since and span is None:
        raise Malformed("since must be a duration like 12h or 7d", code="bad_request")
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


def show_done(done: StaffActResult) -> PersonReply:
    """Return the reply to a moderation action."""
    after = None if done.change is None else done.change.after
    return {
        "UserId": done.account.id,
        "Username": done.account.username,
        "Role": done.account.role.word,
        "Sanction": described(after),
    }


def show_running(
    page: Iterable[tuple[Account, SanctionKind, Sanction]], count: int
) -> SanctionList:
    """Return the reply that lists the sanctions of ``page``; ``count`` is how many are in force."""
    return {
        "sanctions": [
            {
                "UserId": account.id,
                "Username": account.username,
                "Kind": kind.value,
                "Sanction": entry,
            }
            for account, kind, sanction in page
            if (entry := described(sanction)) is not None
        ],
        "count": count,
    }


def show_rows(rows: Sequence[dict[str, Any]]) -> AuditReply:
    """Return the reply with the first PAGE rows; ``next`` is None if there are no more rows."""
    more = len(rows) > PAGE
    return {
        "rows": [shown(row) for row in rows[:PAGE]],
        "next": rows[PAGE - 1]["id"] if more else None,
    }
