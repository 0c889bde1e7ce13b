"""Request and reply shapes of entitlements. Spec: 1 §4 POST /entitlementv2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from attrs import frozen

from svcserver.kernel.envelope import Envelope
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import Lenient, Name
from svcserver.metagame.achievements.entitlements.rules import Entitlement
from svcserver.metagame.achievements.wire import EntitlementRecord, Hours, record


@frozen
class EntitlementWish:
    """An entitlement to grant, under either key; ``duration`` in hours, 0 or absent for ever."""

    entitlement: Name | None = None
    name: Lenient[Name | None] = None
    duration: Hours | None = None

    @property
    def wanted(self) -> str:
        """The entitlement's name; raises Malformed."""
        found = self.entitlement or self.name
        if found is None:
            raise Malformed("entitlement must be a text")
        return found


class EntitlementList(TypedDict):
    """The list, without the envelope."""

    entitlements: list[EntitlementRecord]


Listed = EntitlementList | Envelope[list[EntitlementRecord]]
"""The list, or the empty envelope with fixed progression."""


def show(listed: Sequence[Entitlement]) -> EntitlementList:
    """The entitlements in force, as an object without the envelope."""
    found = [record(one.name, one.duration, one.activated_at) for one in listed]
    return {"entitlements": found}
