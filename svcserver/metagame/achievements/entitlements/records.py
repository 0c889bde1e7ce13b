"""The wire form of entitlements and durations, shared with management. Spec: 1 §4 Progression."""

from __future__ import annotations

from typing import Annotated, TypedDict

from sqlalchemy import Connection

from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.shapes import As, Unfit
from svcserver.kernel.times import iso
from svcserver.metagame.achievements.entitlements import rules
from svcserver.metagame.achievements.entitlements.rules import Entitlement
from svcserver.metagame.achievements.entitlements.store import SqlEntitlements


def read_hours(sent: Json, _: object) -> float:
    """A duration in hours; raises Unfit, also for NaN, of which every comparison is false."""
    if type(sent) in (int, float) and 0 <= sent <= rules.MAX_HOURS:
        return float(sent)
    raise Unfit("a number of hours, 0 or more")


Hours = Annotated[float, As(read_hours, {"type": "number"})]
"""A duration in hours; 0: for ever."""


class EntitlementRecord(TypedDict):
    """An entitlement in force; ``duration`` in hours, 0 for ever."""

    name: str
    duration: float
    activatedDate: str


def number(value: float) -> float | int:
    """Whole hours as an int, so that JSON has no decimal point."""
    return int(value) if value == int(value) else value


def show(held: dict[str, Entitlement], at: int) -> list[EntitlementRecord]:
    """The records in force at ``at`` (epoch milliseconds), by name."""
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
    """The account's records, with its defaults stored at first use; ``now`` in epoch seconds."""
    at = round(now * 1000)
    return show(rules.add_defaults(SqlEntitlements(tx), account_id, defaults, at), at)
