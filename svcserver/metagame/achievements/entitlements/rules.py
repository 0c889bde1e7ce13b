"""The rules of entitlements: duration, renewal, defaults, revocation. Spec: 1 §2 Entitlement."""

from collections.abc import Iterable, Mapping

from attrs import evolve, frozen

from svcserver.kernel.times import HOUR_MS
from svcserver.metagame.achievements.bounds import MAX_HOURS

DEFAULT = "default"


@frozen
class Entitlement:
    """An entitlement; ``duration`` is in hours (0: forever), ``activated_at`` in epoch ms."""

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
    """Return the result of granting ``fresh`` to an account that has the entitlement ``before``.

    If ``before`` is no longer in force, the result is ``fresh``. If ``before`` or ``fresh`` is
    permanent, so is the result. Otherwise, the result has the sum of both durations.
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
    """Return the default entitlements that the account has never had.

    A revoked entitlement still has a row, so it is not missing.
    """
    return [name for name in defaults if name not in held]


def with_defaults(
    held: Mapping[str, Entitlement], defaults: Iterable[str], at: int
) -> dict[str, Entitlement]:
    """Return ``held`` plus the missing default entitlements, which are activated at ``at``."""
    missing = missing_defaults(held, defaults)
    return {**held, **{name: Entitlement(name, 0.0, at, DEFAULT) for name in missing}}


def active(held: Mapping[str, Entitlement], at: int) -> list[Entitlement]:
    """Return the entitlements in force at ``at`` (epoch milliseconds), sorted by name."""
    return [held[name] for name in sorted(held) if held[name].holds(at)]
