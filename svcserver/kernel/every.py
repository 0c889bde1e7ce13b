"""Work that a service repeats at a fixed interval from its start to its stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.throttle import Throttle

log = Logger()


@define(eq=False, slots=False)
class Every(Service):
    """Calls ``work`` every ``every_s`` seconds; with ``at_once`` also right at the start.

    A round that fails costs that round only: it is logged, at most once a minute, as ``what``
    failed; ``Unavailable`` in one line, without a traceback. Where ``work`` returns a Deferred
    the next round waits for it.
    """

    clock: Any
    every_s: float
    work: Callable[[], Any]
    what: str
    at_once: bool = field(default=False, kw_only=True)
    _loop: LoopingCall = field(init=False)
    _failures: Throttle = field(factory=Throttle, init=False)

    def __attrs_post_init__(self) -> None:
        self._loop = LoopingCall(self._round)
        self._loop.clock = self.clock

    def startService(self) -> None:
        Service.startService(self)
        if not self._loop.running:
            self._loop.start(self.every_s, now=self.at_once)

    def stopService(self) -> None:
        Service.stopService(self)
        if self._loop.running:
            self._loop.stop()

    def _round(self) -> Any:
        try:
            done = self.work()
        except Exception:
            self._failed(Failure())
            return None
        return done.addErrback(self._failed) if isinstance(done, Deferred) else None

    def _failed(self, why: Failure) -> None:
        if not self._failures.due("", self.clock.seconds()):
            return
        if why.check(Unavailable):  # a full disk or a database that is away: no mistake of ours
            reason = why.getErrorMessage() or "something it needs cannot serve now"
            log.warn("{what} failed: {reason}; it is tried again", what=self.what, reason=reason)
            return
        log.failure("{what} failed; it is tried again", why, what=self.what)
