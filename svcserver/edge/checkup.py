"""Finds processes that accept connections and answer nothing, as one that hangs.

Only one that owes answers and has sent nothing for ``SILENT_S`` is asked, so that healthy
ones get no request that is not a player's.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.edge.question import ask
from svcserver.edge.spread import Member, Spread
from svcserver.kernel.every import Every

log = Logger()

SILENT_S = 3.0
PATIENCE_S = 2.0  # the deadline of the answer; any will do
LOOK_S = 1.0
QUESTION = b"HEAD /svc/api/ServerStatus HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n"


@define(eq=False, slots=False)
class Checkup(Service):
    """Looks after the members of a ``Spread``."""

    clock: IReactorTime
    spread: Spread
    _asking: dict[int, Deferred[Any]] = field(factory=dict, init=False)
    _rounds: Every = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._rounds = Every(self.clock, LOOK_S, self.look, "a check-up of the workers")

    def startService(self) -> None:
        Service.startService(self)
        self._rounds.startService()

    def stopService(self) -> None:
        Service.stopService(self)
        self._rounds.stopService()
        for asking in list(self._asking.values()):
            asking.cancel()

    def look(self) -> None:
        """Ask those that have been silent for too long, and those that were sick."""
        now = self.clock.seconds()
        for member in self.spread.members:
            silent = member.pool.silent_s(now)
            if member.number not in self._asking and (member.sick or silent >= SILENT_S):
                asking = self._asking[member.number] = ask(
                    member.pool, QUESTION, self.clock, PATIENCE_S
                )
                asking.addBoth(self._asked, member)

    def _asked(self, result: Any, member: Member) -> None:
        self._asking.pop(member.number, None)
        sick = isinstance(result, Failure)
        if sick != member.sick and self.running:
            member.sick = sick
            tell = log.warn if sick else log.info
            word = "does not answer; others serve its players" if sick else "answers again"
            tell("worker {number} {word}", number=member.number, word=word)
            if sick:
                member.pool.drop_idle()
