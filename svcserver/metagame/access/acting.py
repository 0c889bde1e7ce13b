"""The account for which a caller acts. Spec: 1 §4 access labels, §5.6; 2 §7.

A player always acts as itself, whatever account a URL or body names. A game server and an
admin act for the account they name. When a game server forwards the token of another account,
the write is stored for the named one, with a warning once a minute per pair.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen
from twisted.logger import Logger

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Forbidden
from svcserver.kernel.roles import Role
from svcserver.kernel.throttle import Throttle
from svcserver.metagame.rows import Call, Caller, Row

log = Logger()

EVERY_S = 60.0
MAX_PAIRS = 1024


@frozen
class Staff:
    """A member of staff: a name for the audit log, and a role."""

    name: str
    role: Role


def staff_of(call: Call) -> Staff:
    """Return the member of staff who calls, as the gate has proved it."""
    return Staff(call.caller.name or "admin", call.caller.role)


def is_registered(call: Call) -> bool:
    """Return whether the caller has an account, or is the machine itself."""
    return call.caller.account is not None or call.caller.admin


def own_or_none(call: Call, named: AccountId | None) -> AccountId | None:
    """Return ``named`` if it is the caller's own account, else None."""
    return named if call.caller.account == named else None


def shown(call: Call, named: AccountId) -> AccountId:
    """Return the account in a reply that is the same for all: the caller's own, else ``named``."""
    return call.caller.account or named


@define
class Acting:
    """The account that a proven caller acts for. ``wall_clock`` gives epoch seconds."""

    wall_clock: Callable[[], float]
    _throttle: Throttle = field(factory=lambda: Throttle(EVERY_S, MAX_PAIRS), init=False)

    def reads(self, call: Call, named: AccountId) -> AccountId:
        """Return the account whose data is read when the request names ``named``."""
        caller = call.caller
        return named if caller.game_server or caller.admin else call.player

    def writes(self, call: Call, named: AccountId | None) -> AccountId:
        """Return the account to write for; None: the one whose token a game server forwards."""
        subject = call.player if named is None else self.reads(call, named)
        forwarded = call.caller.account
        if (
            call.caller.game_server
            and forwarded not in (None, subject)
            and self._throttle.due((subject, forwarded), self.wall_clock())
        ):
            log.warn(
                "a game server writes for {named!r} and forwards the token of {forwarded};"
                " the write is stored for {named!r}",
                named=subject,
                forwarded=forwarded,
            )
        return subject

    def itself(self, call: Call, named: AccountId) -> AccountId:
        """Return the player's own account; another one in the body is only logged."""
        if named != call.player and self._throttle.due((named, call.player), self.wall_clock()):
            log.info("{account} asks in the name of {named!r}", account=call.player, named=named)
        return call.player


def own(call: Call, named: AccountId) -> AccountId:
    """Return the player's own account, the only one it may name; raises Forbidden."""
    if call.player != named:
        raise Forbidden("this is not yours to do")
    return call.player


def check_owner(row: Row, caller: Caller, named: AccountId) -> None:
    """Raise Forbidden where the marks ``own`` and ``game server`` forbid the call.

    Only for a named account with real progression: the gate asks that first.
    """
    if caller.game_server:
        return
    if row.game_server or (row.own and caller.account != named):
        raise Forbidden("this is not yours to do")
