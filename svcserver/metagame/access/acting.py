"""Who acts, and for which account: decided here, once. Spec: 1 §4 access labels, §5.6; 2 §7.

A player is always itself, whatever a URL or a body names. A game server acts for the account
it names, an admin too. A game server may forward another's token: what it writes is kept for
the account it names, and an owner reads about it once a minute per pair.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from attrs import define, field
from twisted.logger import Logger

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Forbidden, Missing, Unauthenticated
from svcserver.kernel.throttle import Throttle
from svcserver.metagame.rows import Call, Caller, Row

log = Logger()

EVERY_S = 60.0
MAX_PAIRS = 1024

A = TypeVar("A", covariant=True)


class People(Protocol[A]):
    """The accounts by what a caller may name them with."""

    def account_of_id(self, account_id: AccountId) -> Awaitable[A | None]: ...

    def account_named(self, username: str) -> Awaitable[A | None]: ...


class Undirect(Forbidden):
    """A 403 without a body: an admin's act that came through a proxy or from a foreign web page."""


@define
class Acting:
    """For whom a proven caller acts. ``now`` gives epoch seconds."""

    now: Callable[[], float]
    _throttle: Throttle = field(factory=lambda: Throttle(EVERY_S, MAX_PAIRS), init=False)

    def reads(self, call: Call, named: AccountId) -> AccountId:
        """Whose data is read, when the request names that account."""
        caller = call.caller
        return named if caller.game_server or caller.admin else call.player

    def writes(self, call: Call, named: AccountId | None) -> AccountId:
        """Whose data is written; a game server that names nobody means whose token it forwards."""
        subject = call.player if named is None else self.reads(call, named)
        forwarded = call.caller.account
        if call.caller.game_server and forwarded is not None and forwarded != subject:
            self._say(subject, forwarded)
        return subject

    def _say(self, named: AccountId, forwarded: AccountId) -> None:
        if not self._throttle.due((named, forwarded), self.now()):
            return
        log.warn(
            "a game server writes for {named!r} and forwards the token of {forwarded};"
            " the write is kept for {named!r}",
            named=named,
            forwarded=forwarded,
        )


def check_owner(row: Row, caller: Caller, named: AccountId) -> None:
    """Raises Forbidden where the marks ``own`` and ``game server`` forbid it.

    Only for a named account with real progression: the gate asks that first.
    """
    if caller.game_server:
        return
    if row.game_server or (row.own and caller.account != named):
        raise Forbidden("this is not yours to do")


async def sender(call: Call, people: People[A], named: Callable[[], str] | None) -> A:
    """In whose name a management route acts: the key's owner, or whom an admin names.

    ``named`` gives the id or name, or raises where what was sent is neither: it is called
    only for an admin who calls directly.
    """
    if named is None:
        own = await people.account_of_id(call.player)
        if own is None:
            raise Unauthenticated
        return own
    if not call.request.direct:
        raise Undirect
    if not call.caller.admin:
        raise Forbidden("only an admin acts for another player", code="forbidden")
    text = named()
    found = await people.account_of_id(text) or await people.account_named(text)
    if found is None:
        raise Missing("no such account", code="not_found")
    return found
