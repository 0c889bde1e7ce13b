"""How entitlements read, and how a body asks for one. Spec: 1 §4 Progression."""

from __future__ import annotations

from typing import TypedDict

from sqlalchemy import Connection

from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.names import is_name
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.times import iso
from svcserver.metagame.achievements.entitlements import rules
from svcserver.metagame.achievements.entitlements.rules import Entitlement
from svcserver.metagame.achievements.entitlements.store import SqlEntitlements


class EntitlementRecord(TypedDict):
    """``duration`` in hours; 0 for ever."""

    name: str
    duration: float
    activatedDate: str


def number(value: float) -> float | int:
    """Whole hours without a decimal point."""
    return int(value) if value == int(value) else value


def show(held: dict[str, Entitlement], at: int) -> list[EntitlementRecord]:
    """The records in force, by name."""
    return [
        {
            "name": one.name,
            "duration": number(one.duration),
            "activatedDate": iso(one.activated_at / 1000),
        }
        for one in rules.active(held, at)
    ]


def listing(
    tx: Connection, account_id: AccountId, defaults: tuple[str, ...], now: float
) -> list[EntitlementRecord]:
    """The account's records, its defaults added at first use."""
    at = round(now * 1000)
    return show(rules.add_defaults(SqlEntitlements(tx), account_id, defaults, at), at)


def wish(body: Json, *names: str) -> tuple[str, Json]:
    """The entitlement a body names under one of ``names``, and the object; raises Malformed."""
    sent = body if isinstance(body, dict) else {}
    found = next((sent[one] for one in names if sent.get(one) is not None), None)
    if not is_name(found):
        raise Malformed("the entitlement must be a text", code="bad_request")
    return str(found), sent
