"""Sends alerts from the stack: one delivery at a time for each channel, with retries."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Container
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.kernel import alert_channels
from svcserver.kernel.alert_channels import (
    MAX_WHY,
    MOST,
    STATE_FILE,
    AlertChannel,
    AlertChannels,
    Told,
    write,
)
from svcserver.kernel.every import Every
from svcserver.kernel.system import epoch, token_hex
from svcserver.stack.alerts.channels import BARE, Channel, Named, all_of
from svcserver.stack.alerts.delivering import Courier
from svcserver.stack.alerts.disks import lines
from svcserver.stack.alerts.rules import Alert, Held, What

log = Logger()
AGAIN_S = (10.0, 60.0, 300.0, 1800.0)  # between tries; then it is given up
TESTS_EVERY_S = 2.0
MOST_WAITING = 50  # alerts of a channel


@define(eq=False)
class Line:
    """What waits for one channel; one try at a time."""

    named: Named
    post: Posting
    held: Held = field(factory=Held)
    _waiting: deque[Alert] = field(factory=deque, init=False)
    last: Told | None = field(default=None, init=False)
    _tries: int = field(default=0, init=False)
    _number: str = field(default="", init=False)
    _delivery: Deferred[None] | None = field(default=None, init=False)
    _ended: bool = field(default=False, init=False)
    _timer: Any = field(default=None, init=False)

    @property
    def channel(self) -> Channel:
        """The channel that the alerts are sent through."""
        return self.named.channel

    def take(self, alert: Alert) -> None:
        """Send it, or keep it until the quiet hours end."""
        if not self.channel.wants(alert.what):
            return
        if self.is_quiet() and alert.what is not What.TEST:
            self.held.keep(alert)
            return
        self._queue(alert)

    def is_quiet(self) -> bool:
        """Whether its quiet hours hold now."""
        quiet = self.channel.quiet
        return quiet is not None and quiet.holds(datetime.fromtimestamp(epoch()).time())

    def wake(self) -> None:
        """Send what the quiet hours have kept, once they are over."""
        if not self.is_quiet():
            for alert in self.held.release():
                self._queue(alert)

    def _queue(self, alert: Alert) -> None:
        if len(self._waiting) >= MOST_WAITING:
            log.warn("too many alerts wait for {name}: one is left out", name=self.named.name)
            return
        self._waiting.append(alert)
        if self._delivery is None and self._timer is None:
            self._begin()

    def _begin(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        self._number = self._number or token_hex(16)
        courier = Courier.of(self.post.reactor, self.post.host_name())
        delivery = courier.deliver(self.channel, self._waiting[0], self._number)
        self._delivery = delivery
        delivery.addCallbacks(self._delivered, self._failed)
        delivery.addErrback(lambda failure: log.failure("an alert failed", failure))

    def _delivered(self, _: None) -> None:
        alert = self._waiting[0]
        log.info("told {name}: {title}", name=self.named.name, title=alert.title)
        self._over(alert, "")

    def _failed(self, failure: Failure) -> None:
        self._delivery = None
        if not self.post.running or self._ended:
            return
        error: Any = failure.value
        alert, reason = self._waiting[0], str(error)
        if error.again and self._tries < len(AGAIN_S):
            wait = AGAIN_S[self._tries]
            self._tries += 1
            text = "alert not delivered to {name}: {why}; again in {wait:.0f} s"
            log.warn(text, name=self.named.name, why=reason, wait=wait)
            self._note(alert, f"{reason}; it is tried again")
            self._timer = self.post.reactor.callLater(wait, self._begin)
            return
        text = "alert not delivered to {name}: {why}; given up: {title}"
        log.error(text, name=self.named.name, why=reason, title=alert.title)
        self._over(alert, reason)

    def _over(self, alert: Alert, reason: str) -> None:
        self._delivery = None
        self._waiting.popleft()
        self._tries, self._number = 0, ""
        self._note(alert, reason)
        if self.post.running:
            self._begin()

    def _note(self, alert: Alert, why: str) -> None:
        self.last = Told(round(epoch(), 3), alert.title, why[:MAX_WHY])
        self.post.note()

    def end(self) -> None:
        """Cancel the delivery or the wait for the next one; nothing is sent any more."""
        self._ended = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if self._delivery is not None:
            self._delivery.cancel()


@define(eq=False, slots=False)
class Posting(Service):
    """Every channel of the host; their files are read at each alert.

    What became of the last alert of each stands in a file in ``data``, for the dashboard.
    """

    reactor: Any
    folder: Path
    data: Path
    _lines: dict[str, Line] = field(factory=dict, init=False)
    _wrong: list[str] = field(factory=list, init=False)
    _noted: AlertChannels | None = field(default=None, init=False)

    def tell(self, alert: Alert) -> None:
        """Queue the alert on every channel that wants its kind."""
        for line in self._current():
            line.take(alert)
        for fault in (one for one in self._wrong if BARE not in one):
            log.error("an alert is not sent: {wrong}", wrong=fault)

    def test(self, names: Container[str]) -> None:
        """Send a test through the channels of these names."""
        alert = Alert(What.TEST, "the dashboard's", "It arrives: this channel works.", epoch())
        for line in self._current():
            if line.named.name in names:
                line.take(alert)

    def look(self) -> None:
        """Send what quiet hours have held back, where they are over."""
        for line in self._current():
            line.wake()
        self.note()

    def note(self) -> None:
        """Write down the channels and what became of their last alerts; touch it else."""
        if not self.running:
            return
        now = AlertChannels([_shown(one) for one in self._lines.values()], self._wrong[:MOST])
        try:
            if now == self._noted:
                os.utime(self.data / STATE_FILE)
                return
            write(self.data, now)
            self._noted = now
        except OSError as why:
            self._noted = None
            log.debug("the alerts' channels cannot be written down: {why}", why=why.strerror)

    def _current(self) -> list[Line]:
        found, wrong = all_of(self.folder)
        for why in wrong:
            if why not in self._wrong:
                log.warn("alerts: {why}", why=why)
        self._wrong = wrong
        names = {one.name for one in found}
        for gone in [name for name in self._lines if name not in names]:
            self._lines.pop(gone).end()
        for one in found:
            if one.name in self._lines:
                self._lines[one.name].named = one
            else:
                self._lines[one.name] = Line(one, self)
        return list(self._lines.values())

    def host_name(self) -> str:
        """Return the name that alerts give the host."""
        name = lines(self.folder / "metagame.env").get("SERVER_NAME")
        return name or socket.gethostname()

    def stopService(self) -> None:
        Service.stopService(self)
        for line in self._lines.values():
            line.end()
        with suppress(OSError):
            (self.data / STATE_FILE).unlink()  # nobody sends alerts from now on


def _shown(line: Line) -> AlertChannel:
    channel = line.channel
    about = tuple(one.value for one in channel.about)
    return AlertChannel(line.named.name, channel.form, about, channel.hours, line.last)


def trial_rounds(reactor: Any, posting: Posting) -> Every:
    """The service that looks for tests that a metagame asks for."""

    def look() -> None:
        if names := alert_channels.asked(posting.data, epoch()):
            posting.test(names)

    return Every(reactor, TESTS_EVERY_S, look, "the look for tests of alerts")
