"""The JSON form of entitlements and durations, in all routes. Spec: 1 §4 Progression."""

from typing import Annotated, TypedDict

from svcserver.kernel.json import Json
from svcserver.kernel.shapes import As, Moment, Unfit
from svcserver.kernel.times import iso
from svcserver.metagame.achievements.bounds import MAX_HOURS


def read_hours(sent: Json, _: object) -> float:
    """Return a number of hours, 0 or more; raises Unfit for other values, including NaN."""
    if type(sent) in (int, float) and 0 <= sent <= MAX_HOURS:
        return float(sent)
    raise Unfit("a number of hours, 0 or more")


Hours = Annotated[float, As(read_hours, {"type": "number"})]
"""A duration in hours; 0 means forever."""


class EntitlementRecord(TypedDict):
    """An entitlement in force; ``duration`` is in hours, 0 means forever."""

    name: str
    duration: float
    activatedDate: Moment


def record(name: str, hours: float, activated_at: int) -> EntitlementRecord:
    """Return the record of an entitlement; ``activated_at`` is in epoch milliseconds."""
    return {
        "name": name,
        "duration": int(hours) if hours == int(hours) else hours,  # 2, not 2.0, in the JSON
        "activatedDate": iso(activated_at / 1000),
    }
