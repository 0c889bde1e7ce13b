"""The rules of entitlements: duration, renewal, defaults, revocation. Spec: 1 §2 Entitlement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve, frozen

from svcserver.kernel.times import HOUR_MS
from svcserver.metagame.achievements.bounds import MAX_HOURS

DEFAULT = "default"


@frozen
class Entitlement:
    """An entitlement; ``duration`` in hours (0: forever), ``activated_at`` in epoch ms."""

    name: str
    duration: float
    activated_at: int
    source: str
    revoked: bool = False

    def holds(self, at: int) -> bool:
        """Return whether the entitlement is in force at ``at`` (epoch milliseconds)."""
        if self.revoked:
            return False
        return self.duration <= 0 or self.activated_at + self.duration * HOUR_MS > at


def granted(before: Entitlement | None, fresh: Entitlement) -> Entitlement:
    """Return the entitlement after ``fresh`` is granted to an account that has ``before``.

    While ``before`` is in force, a permanent one stays permanent, a duration of 0 makes it
    permanent, and hours are added to its duration. Otherwise ``fresh`` replaces ``before``.
    """
    if before is None or not before.holds(fresh.activated_at):
        return fresh
    if before.duration <= 0:
        return before
    if fresh.duration <= 0:
        return evolve(before, duration=0.0, source=fresh.source)
    longer = min(before.duration + fresh.duration, MAX_HOURS)
    return evolve(before, duration=longer, source=fresh.source)


def missing_defaults(held: Mapping[str, Entitlement], defaults: Iterable[str]) -> list[str]:
    """Return the defaults that the account never had; a revoked entitlement still has a row."""
    return [name for name in defaults if name not in held]


def with_defaults(
    held: Mapping[str, Entitlement], defaults: Iterable[str], at: int
) -> dict[str, Entitlement]:
    """Return ``held`` plus the defaults that the account's first use adds."""
    missing = missing_defaults(held, defaults)
    return {**held, **{name: Entitlement(name, 0.0, at, DEFAULT) for name in missing}}


def active(held: Mapping[str, Entitlement], at: int) -> list[Entitlement]:
    """Return the entitlements in force at ``at`` (epoch milliseconds), by name."""
    return [held[name] for name in sorted(held) if held[name].holds(at)]
