"""The account for which a caller acts. Spec: 1 §4 access labels, §5.6; 2 §7.

A player always acts for its own account, whatever account a URL or body names. A game server or an
admin acts for the account that the request names. If a game server names one account but forwards
the token of another, the write is stored for the named account. A warning is logged, at most once
a minute for each pair of accounts.
"""

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
    """A staff member: a name for the audit log, and a role."""

    name: str
    role: Role


def staff_of(call: Call) -> Staff:
    """Return the staff member who sent the request, as verified by the gate."""
    return Staff(call.caller.name or "admin", call.caller.role)


def is_registered(call: Call) -> bool:
    """Return whether the caller has an account or is this machine's owner."""
    return call.caller.account is not None or call.caller.admin


def own_or_none(call: Call, named: AccountId | None) -> AccountId | None:
    """Return ``named`` if it is the caller's own account, else None."""
    return named if call.caller.account == named else None


def shown(call: Call, named: AccountId) -> AccountId:
    """Return the account id for a reply: the caller's own or, if the caller has none, ``named``."""
    return call.caller.account or named


@define
class Acting:
    """Chooses the account that a verified caller acts for."""

    wall_clock: Callable[[], float]
    _throttle: Throttle = field(factory=lambda: Throttle(EVERY_S, MAX_PAIRS), init=False)

    def reads(self, call: Call, named: AccountId) -> AccountId:
        """Return the account whose data the caller may read.

        That is the own account of a player, and ``named`` for every other caller. Raises Forbidden
        if the caller may not read ``named``.
        """
        caller = call.caller
        if caller.acts_for is not None and named not in caller.acts_for:
            raise Forbidden("this player was not sent to this game server")
        return named if caller.game_server or caller.admin else call.player

    def writes(self, call: Call, named: AccountId | None) -> AccountId:
        """Return the account to write for; raises Forbidden.

        The account is ``named`` or, if ``named`` is None, the account of the token.
        """
        subject = call.player if named is None else self.reads(call, named)
        forwarded = call.caller.account
        if (
            call.caller.game_server
            and forwarded not in (None, subject)
            and self._throttle.due((subject, forwarded), self.wall_clock())
        ):
            log.warn(
                "a game server sent data for player {named!r} with the token of player"
                " {forwarded}. The data is stored for player {named!r}",
                named=subject,
                forwarded=forwarded,
            )
        return subject

    def itself(self, call: Call, named: AccountId) -> AccountId:
        """Return the player's own account; write a log line if the body names another account."""
        if named != call.player and self._throttle.due((named, call.player), self.wall_clock()):
            log.info(
                "{account} sent a request in the name of {named!r}",
                account=call.player,
                named=named,
            )
        return call.player


def own(call: Call, named: AccountId) -> AccountId:
    """Return the player's own account; raises Forbidden if ``named`` is another account."""
    if call.player != named:
        raise Forbidden("only the owner of this account may do this")
    return call.player


def check_owner(row: Row, caller: Caller, named: AccountId) -> None:
    """Raise Forbidden if this caller may not use the route for the named account.

    If a route has the mark ``game_server``, only game servers may use it. If it has the mark
    ``own``, players may name only their own account. The gate calls this function only for accounts
    with stored progression (``MetagameSettings.real_progression``).
    """
    if caller.game_server:
        return
    if row.game_server or (row.own and caller.account != named):
        raise Forbidden("only the owner of this account may do this")
