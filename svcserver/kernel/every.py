"""A service that calls a function at a fixed interval."""

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.throttle import Throttle

log = Logger()


@define(eq=False, slots=False)
class Every(Service):
    """A service that calls ``work`` every ``every_s`` seconds.

    If ``at_once`` is true, it also calls ``work`` when it starts. If ``at_end`` is true, it also
    calls ``work`` when it stops, and waits for the result.

    A failed call is logged as "``what`` failed", at most once a minute; ``Unavailable`` is logged
    in one line without a traceback. If ``work`` returns a Deferred, the next call waits for it.
    Calls that were due in the meantime are left out, and the schedule stays the same.
    """

    clock: Any
    every_s: float
    work: Callable[[], Any]
    what: str
    at_once: bool = field(default=False, kw_only=True)
    at_end: bool = field(default=False, kw_only=True)
    _failures: Throttle = field(factory=Throttle, init=False)
    _timer: Any = field(default=None, init=False)
    _due: float = field(default=0.0, init=False)
    _waits: bool = field(default=False, init=False)  # for the Deferred that ``work`` returned

    def startService(self) -> None:
        if self.running:
            return
        Service.startService(self)
        self._due = self.clock.seconds()
        if self._waits:
            return  # a call from before the last stop is still running
        if self.at_once:
            self._round()
        else:
            self._wait()

    def stopService(self) -> Deferred[None] | None:
        was, _ = self.running, Service.stopService(self)
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        return maybeDeferred(self.work).addErrback(self._failed) if was and self.at_end else None

    def _wait(self) -> None:
        now = self.clock.seconds()
        self._due += self.every_s
        late = now - self._due
        if late >= 0:
            self._due += self.every_s * (late // self.every_s + 1)
        self._timer = self.clock.callLater(self._due - now, self._round)

    def _round(self) -> None:
        self._timer = None
        try:
            done = self.work()
        except Exception:
            self._failed(Failure())
        else:
            if isinstance(done, Deferred):
                self._waits = True
                done.addErrback(self._failed).addBoth(self._done)
                return
        if self.running:
            self._wait()

    def _done(self, _: Any) -> None:
        self._waits = False
        if self.running:
            self._wait()

    def _failed(self, failure: Failure) -> None:
        if not self._failures.due("", self.clock.seconds()):
            return
        if failure.check(Unavailable):  # a full disk or a lost database is not a defect
            reason = failure.getErrorMessage() or "a service that it needs is not available"
            text = "{what} failed: {reason}; next attempt within {every_s:g} s"
            log.warn(text, what=self.what, reason=reason, every_s=self.every_s)
            return
        text = "{what} failed; next attempt within {every_s:g} s"
        log.failure(text, failure, what=self.what, every_s=self.every_s)
