"""The shapes of accounts and audit rows that several features send. Spec: 2 §4."""

from typing import Annotated, Any, TypedDict

from attrs import field, frozen

from svcserver.kernel import json
from svcserver.kernel.digits import whole_in
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import Late, Moment, Opaque, TextWithNul, plain_text, sent_as
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.actions import target_of
from svcserver.metagame.accounts.sanctions import MAX_REASON

MAX_OFFSET = 10_000_000
MAX_DIGITS = 8
FINGERPRINT = 16  # characters shown of a key's hash

Reason = Annotated[str, plain_text(0, MAX_REASON)]
"""The reason that a staff member gives for an action, for the audit log."""


@frozen
class BehalfRequest:
    """A friend request or an invite to the account with the name ``Username``.

    An admin may send it for another account, whose id or name is ``From``. ``Reason`` is stored in
    the audit log.
    """

    username: TextWithNul = field(metadata=sent_as("Username"))
    sender: Late[TextWithNul] | None = field(default=None, metadata=sent_as("From"))
    reason: Reason = field(default="", metadata=sent_as("Reason"))


class AccountEntry(TypedDict):
    """An account in an admin's list, with the first part of its key's hash."""

    id: str
    name: str
    admin: bool
    keyFingerprint: str | None


def entry(account_id: AccountId, name: str, admin: bool, key_hash: str | None) -> AccountEntry:
    """Return an admin's view of an account; part of ``key_hash`` is shown to identify the key."""
    return {
        "id": account_id,
        "name": name,
        "admin": admin,
        "keyFingerprint": None if key_hash is None else key_hash[:FINGERPRINT],
    }


def read_offset(text: str | None) -> int:
    """Return the offset for a page of accounts; raises Malformed."""
    if text is None:
        return 0
    offset = whole_in(text, MAX_DIGITS)
    if offset is None or offset > MAX_OFFSET:
        raise Malformed("offset must be a whole number from 0 to 10000000")
    return offset


Noted = Annotated[Json, Opaque("A value of the recorded act.")]


class AuditRow(TypedDict):
    """A row of the audit log; ``refused`` is the reason for a refusal, null if the action ran.

    ``targetKind`` is account, invite, guild, setting, channel, game server, host, file or machine;
    it is empty if there is no target.
    """

    id: int
    at: Moment
    actor: str
    action: str
    target: str
    targetKind: str
    reason: str
    before: dict[str, Noted] | None
    after: dict[str, Noted] | None
    refused: str | None


def shown(row: dict[str, Any]) -> AuditRow:
    """Return an audit row with the time as text, and ``before`` and ``after`` as objects."""
    return {
        "id": row["id"],
        "at": iso(row["at"] / 1000),
        "actor": row["actor"],
        "action": row["action"],
        "target": row["target"],
        "targetKind": target_of(row["action"]).value if row["target"] else "",
        "reason": row["reason"],
        "before": _parsed(row["before"]),
        "after": _parsed(row["after"]),
        "refused": row["refused"],
    }


def _parsed(text: str | None) -> dict[str, Any] | None:
    return None if text is None else json.parse(text)
