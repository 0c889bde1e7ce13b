"""Sends alerts, with retries; each of the owner's channels sends one alert at a time."""

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
    MOST,
    MOST_DELIVERIES,
    STATE_FILE,
    AlertChannel,
    AlertChannels,
    Delivery,
    write,
)
from svcserver.kernel.alert_settings import (
    UNSIGNED,
    AlertKind,
    Channel,
    NamedChannel,
    read_channels,
)
from svcserver.kernel.every import Every
from svcserver.kernel.system import epoch, token_hex
from svcserver.stack.alerts.delivering import AlertClient
from svcserver.stack.alerts.disks import read_or_empty
from svcserver.stack.alerts.rules import Alert, HeldAlerts

log = Logger()
AGAIN_S = (10.0, 60.0, 300.0, 1800.0)  # between tries; after the last try, the alert is dropped
TESTS_EVERY_S = 2.0
MAX_WHY = 300  # characters of the reason why a delivery failed
MOST_WAITING = 50  # alerts of a channel


@define(eq=False)
class ChannelQueue:
    """The queue of alerts of one channel, delivered one at a time."""

    named: NamedChannel
    sender: AlertSender
    held: HeldAlerts = field(factory=HeldAlerts)
    deliveries: deque[Delivery] = field(factory=deque)  # newest first
    _waiting: deque[Alert] = field(factory=deque, init=False)
    _is_recorded: bool = field(default=False, init=False)  # ``deliveries`` has the first alert
    _tries: int = field(default=0, init=False)
    _number: str = field(default="", init=False)
    _delivery: Deferred[None] | None = field(default=None, init=False)
    _ended: bool = field(default=False, init=False)
    _timer: Any = field(default=None, init=False)

    @property
    def channel(self) -> Channel:
        return self.named.channel

    def send(self, alert: Alert) -> None:
        """Send the alert if the channel wants its kind; hold the alert during quiet hours."""
        if not self.channel.wants(alert.what):
            return
        if self.is_quiet() and alert.what is not AlertKind.TEST:
            self.held.hold(alert)
            return
        self._queue(alert)

    def is_quiet(self) -> bool:
        """Return whether the channel's quiet hours include the current time."""
        quiet = self.channel.quiet
        return quiet is not None and quiet.include(datetime.fromtimestamp(epoch()).time())

    def check_quiet_hours(self) -> None:
        """Send the held alerts if the quiet hours have ended."""
        if not self.is_quiet():
            for alert in self.held.release():
                self._queue(alert)

    def _queue(self, alert: Alert) -> None:
        if len(self._waiting) >= MOST_WAITING:
            log.warn(
                "too many alerts are waiting for the channel {name}, so one alert is dropped",
                name=self.named.name,
            )
            return
        self._waiting.append(alert)
        if self._delivery is None and self._timer is None:
            self._start_delivery()

    def _start_delivery(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        self._number = self._number or token_hex(16)
        client = AlertClient.with_resolver(self.sender.reactor, self.sender.host_name())
        delivery = client.deliver(self.channel, self._waiting[0], self._number)
        self._delivery = delivery
        delivery.addCallbacks(self._delivered, self._failed)
        delivery.addErrback(lambda failure: log.failure("an alert failed", failure))

    def _delivered(self, _: None) -> None:
        alert = self._waiting[0]
        log.info("alert delivered to {name}: {title}", name=self.named.name, title=alert.title)
        self._finish(alert, "")

    def _failed(self, failure: Failure) -> None:
        self._delivery = None
        if not self.sender.running or self._ended:
            return
        error: Any = failure.value
        alert, reason = self._waiting[0], str(error)
        if error.again and self._tries < len(AGAIN_S):
            wait = AGAIN_S[self._tries]
            self._tries += 1
            text = "alert not delivered to {name}: {why}; trying again in {wait:.0f} s"
            log.warn(text, name=self.named.name, why=reason, wait=wait)
            self._record(alert, f"{reason}; next attempt after {wait:.0f} s")
            self._timer = self.sender.reactor.callLater(wait, self._start_delivery)
            return
        text = "alert not delivered to {name}: {why}; dropped: {title}"
        log.error(text, name=self.named.name, why=reason, title=alert.title)
        self._finish(alert, reason)

    def _finish(self, alert: Alert, reason: str) -> None:
        self._delivery = None
        self._waiting.popleft()
        self._tries, self._number = 0, ""
        self._record(alert, reason)
        self._is_recorded = False
        if self.sender.running:
            self._start_delivery()

    def _record(self, alert: Alert, reason: str) -> None:
        if self._is_recorded:
            self.deliveries.popleft()
        self._is_recorded = True
        self.deliveries.appendleft(Delivery(round(epoch(), 3), alert.title, reason[:MAX_WHY]))
        while len(self.deliveries) > MOST_DELIVERIES:
            self.deliveries.pop()
        self.sender.write_state()

    def end(self) -> None:
        """Cancel the current delivery, or the wait before a retry, and send nothing more."""
        self._ended = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if self._delivery is not None:
            self._delivery.cancel()


@define(eq=False, slots=False)
class AlertSender(Service):
    """The sender of alerts through all channels; it rereads the channel files for each alert.

    It writes the results of each channel's last alerts to a file in ``data``, for the dashboard.
    """

    reactor: Any
    folder: Path
    data: Path
    _queues: dict[str, ChannelQueue] = field(factory=dict, init=False)
    _faults: list[str] = field(factory=list, init=False)
    _written: AlertChannels | None = field(default=None, init=False)
    _history: dict[str, tuple[Delivery, ...]] = field(factory=dict, init=False)

    def startService(self) -> None:
        Service.startService(self)
        previous = alert_channels.stored(self.data)
        if previous is not None:
            self._history = {channel.name: channel.deliveries for channel in previous.all}

    def send(self, alert: Alert) -> None:
        """Send the alert through every channel that wants its kind."""
        for queue in self._read_channels():
            queue.send(alert)
        for fault in self._faults:
            if UNSIGNED not in fault:
                log.error("an alert was not sent through one channel: {wrong}", wrong=fault)

    def send_test(self, names: Container[str]) -> None:
        """Send a test alert through the channels with these names."""
        alert = Alert(AlertKind.TEST, "the dashboard's", "This channel works.", epoch())
        for queue in self._read_channels():
            if queue.named.name in names:
                queue.send(alert)

    def check_quiet_hours(self) -> None:
        """Send the held alerts of all channels whose quiet hours have ended."""
        for queue in self._read_channels():
            queue.check_quiet_hours()
        self.write_state()

    def write_state(self) -> None:
        """Write the channels and their last results; if nothing changed, only touch the file."""
        if not self.running:
            return
        state = self._state()
        try:
            if state == self._written:
                os.utime(self.data / STATE_FILE)
                return
            write(self.data, state)
            self._written = state
        except OSError as error:
            self._written = None
            log.debug(
                "the state of the alert channels cannot be written: {why}", why=error.strerror
            )

    def _state(self) -> AlertChannels:
        channels = [_state_of(queue) for queue in self._queues.values()]
        return AlertChannels(channels, self._faults[:MOST], on=bool(self.running))

    def _read_channels(self) -> list[ChannelQueue]:
        channels, problems = read_channels(self.folder)
        faults = [problem.text for problem in problems]
        for fault in faults:
            if fault not in self._faults:
                log.warn("alerts: {why}", why=fault)
        self._faults = faults
        for removed in self._queues.keys() - {named.name for named in channels}:
            self._queues.pop(removed).end()
        for named in channels:
            queue = self._queues.get(named.name)
            if queue is None:
                history = deque(self._history.pop(named.name, ()))
                self._queues[named.name] = ChannelQueue(named, self, deliveries=history)
            else:
                queue.named = named
        return list(self._queues.values())

    def host_name(self) -> str:
        """Return the host name to show in alerts."""
        name = read_or_empty(self.folder / "metagame.env").get("SERVER_NAME")
        return name or socket.gethostname()

    def stopService(self) -> None:
        Service.stopService(self)
        for queue in self._queues.values():
            queue.end()
        with suppress(OSError):
            write(self.data, self._state())  # no alerts are sent from now on


def _state_of(queue: ChannelQueue) -> AlertChannel:
    channel = queue.channel
    about = tuple(kind.value for kind in channel.about)
    name, deliveries = queue.named.name, tuple(queue.deliveries)
    return AlertChannel(name, channel.form, about, channel.hours, deliveries)


def requested_tests(reactor: Any, sender: AlertSender) -> Every:
    """Return the service that checks whether a metagame has requested a test alert."""

    def check() -> None:
        if names := alert_channels.take_test_requests(sender.data, epoch()):
            sender.send_test(names)

    return Every(reactor, TESTS_EVERY_S, check, "the check for requested test alerts")
