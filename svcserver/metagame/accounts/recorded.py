"""Makes event-log and audit-log entries from requests."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from svcserver.kernel.foreign_text import NOT_PLAIN, is_plain
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import Late
from svcserver.metagame.access.acting import Acting, staff_of
from svcserver.metagame.accounts import audit
from svcserver.metagame.accounts.eventlog import EventEntry
from svcserver.metagame.accounts.sanctions import MAX_REASON
from svcserver.metagame.rows import Call
from svcserver.web.routes import EMPTY_OBJECT, logged_path

T = TypeVar("T")


def entry(
    acting: Acting, call: Call, named: AccountId, show: Callable[[T], Any], action: str = ""
) -> EventEntry[T]:
    """Return the event-log entry of a write; ``named`` is the account's id.

    ``show(result)`` returns the reply. If staff may use the route, ``action`` is the action's name
    in the audit log.
    """
    return EventEntry(
        acting.writes(call, named),
        _caller(call),
        f"{call.request.method} {logged_path(call.request.path)}",
        call.request.body,
        call.caller.admin,
        show,
        call.caller.name,
        action,
        reason_of(call) if call.caller.admin else "",
    )


def by_staff(call: Call, action: str, target: str = "") -> audit.AuditEntry:
    """Return the audit-log entry of an action that a staff member requests."""
    return audit.AuditEntry(staff_of(call).name, action, target, reason_of(call))


def reason_of(call: Call) -> str:
    """Return ``Reason`` from the body, or from the query if there is no body."""
    if call.body is None:
        reason_sent = (call.request.argument("Reason") or "")[:MAX_REASON]
        if not is_plain(reason_sent):
            raise Malformed(f"Reason must be a text without {NOT_PLAIN}", code="bad_request")
        return reason_sent
    sent = call.body.parse_value() if isinstance(call.body, Late) else call.body
    reason: str = getattr(sent, "reason", "")
    return reason


def nothing(done: None) -> Mapping[str, Json]:
    """Return the empty reply of a write without a result."""
    return EMPTY_OBJECT


def as_stored(reply: bytes) -> bytes:
    """Return ``reply``, which is already encoded."""
    return reply


def _caller(call: Call) -> str:
    account = call.caller.account or ""
    if call.caller.admin:
        return f"admin {account}"
    if call.caller.game_server:
        place = f" on {call.caller.node}" if call.caller.node else ""
        return f"game server{place} {account}".strip()
    return f"player {account}"
