"""A game server that names one account and forwards another's token. Spec: 1 §5.6.

The write is kept for the account it names; an owner reads about it once a minute per pair.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.logger import Logger

from svcserver.kernel.ids import AccountId
from svcserver.kernel.throttle import Throttle
from svcserver.web.routes import Call

log = Logger()

EVERY_S = 60.0
MAX_PAIRS = 1024


@define
class Relayed:
    """Whose data a request means, and the log of game servers that forward another's token."""

    now: Callable[[], float]
    _throttle: Throttle = field(factory=lambda: Throttle(EVERY_S, MAX_PAIRS), init=False)

    def subject(self, call: Call, named: AccountId) -> AccountId:
        """The named account for a game server, else the caller's own; mismatches are logged."""
        subject = call.subject(named)
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
