"""Entitlements as they are asked for and listed. Spec: 1 §4 POST /entitlementv2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from attrs import frozen

from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import Lenient, Name
from svcserver.metagame.achievements.entitlements.records import EntitlementRecord, Hours
from svcserver.metagame.replies import Envelope
from svcserver.web.routes import Answer


@frozen
class EntitlementWish:
    """Which, by either name; ``duration`` in hours, 0 or absent for ever."""

    entitlement: Name | None = None
    name: Lenient[Name | None] = None
    duration: Hours | None = None

    @property
    def wanted(self) -> str:
        """Which; raises Malformed."""
        found = self.entitlement or self.name
        if found is None:
            raise Malformed("entitlement must be a text")
        return found


class EntitlementList(TypedDict):
    """Flat: no envelope."""

    entitlements: list[EntitlementRecord]


Listed = EntitlementList | Envelope[list[EntitlementRecord]]
"""The list, or the empty envelope of fixed progression."""


def show(listed: Sequence[EntitlementRecord]) -> Answer:
    """The list."""
    return Answer(200, {"entitlements": listed})
