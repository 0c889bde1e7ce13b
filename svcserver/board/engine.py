"""The client of the live-state engine, with two connections that reconnect automatically.

One connection is for commands, the other for published messages. While the connection for commands
is down, commands fail immediately.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.protocol import Factory
from twisted.internet.ssl import Certificate, optionsForClientTLS, trustRootFromCertificates
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svcserver.board.address import EngineAddress, authorities
from svcserver.board.connection import Argument, ConnectionEnded, EngineReplyError, EngineWire
from svcserver.board.scripts import COMMIT, SCRIPTS, Script
from svcserver.kernel.buggify import buggify
from svcserver.kernel.every import Every
from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.system import generator
from svcserver.kernel.throttle import Throttle

log = Logger()

CONNECT_S = 1.0
NAME_S = 2.0  # to resolve the host name, for which the system has no deadline
AGAIN_S = 0.25  # between two attempts to connect, plus a random half
BEAT_S = 1.0  # between two heartbeats of a connection
RETRY_S = 1  # the Retry-After of a refusal
# errors of an engine that is not the master (any more): a reconnect may find the master
STALE = ("READONLY", "MASTERDOWN", "LOADING")
LISTENS_LATE_S = 3.0  # only in a simulation
MOST_EARLY = 1_000  # commands that wait for the first connection

Pushed = Callable[[bytes, bytes], None]
Ask = Callable[..., Deferred[Any]]  # takes the words of a command


class BoardAway(Unavailable):
    """The error of a call that the live-state engine does not answer; the HTTP reply is a 503."""

    def __init__(self) -> None:
        super().__init__("live state cannot be reached now", retry_after_s=RETRY_S)


@define(eq=False, slots=False)
class BoardEngine(Service):
    """The live-state engine over TCP or TLS; methods fail with BoardAway while disconnected."""

    reactor: Any
    address: EngineAddress
    _pushed: Pushed | None = field(default=None, init=False)
    _joined: Callable[[], None] | None = field(default=None, init=False)
    _channels: list[bytes] = field(factory=list, init=False)
    _asking: EngineConnection = field(init=False)
    _listening: EngineConnection = field(init=False)
    _warned: Throttle = field(factory=Throttle, init=False)
    _early: list[Deferred[Any]] = field(factory=list, init=False)  # before the first connection
    _preparations: list[Callable[[Ask], Awaitable[None]]] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._asking = EngineConnection(self.reactor, self.address, self._ready)
        self._asking.first = self._first_tried
        self._listening = EngineConnection(self.reactor, self.address, self._listens, self._message)

    @property
    def space(self) -> str:
        """The database number; it is part of channel names, because databases share channels."""
        return str(self.address.db)

    def startService(self) -> None:
        super().startService()
        self._asking.start()
        self._listening.start()

    def stopService(self) -> None:
        super().stopService()
        self._asking.stop()
        self._listening.stop()

    def seconds(self) -> float:
        """Return the reactor's time in seconds."""
        seconds: float = self.reactor.seconds()
        return seconds

    def pause(self, seconds: float) -> Deferred[None]:
        """Return a cancellable Deferred that fires after this number of seconds."""
        return deferLater(self.reactor, seconds)

    def on_messages(
        self, pushed: Pushed, joined: Callable[[], None], left: Callable[[], None]
    ) -> None:
        """Set the callbacks for a message, and for the start and the end of a subscription."""
        self._pushed, self._joined, self._listening.left = pushed, joined, left

    def before_all(self, prepare: Callable[[Ask], Awaitable[None]]) -> None:
        """Run ``prepare`` once, on the first connection and before all other commands."""
        self._preparations.append(prepare)

    def subscribe(self, channel: bytes) -> None:
        """Subscribe to a channel now, and again after every reconnect."""
        self._channels.append(channel)
        wire = self._listening.wire
        if wire is not None:
            Deferred.fromCoroutine(self._subscribe(wire, channel))

    async def _subscribe(self, wire: EngineWire, channel: bytes) -> None:
        try:
            await wire.send_command("SUBSCRIBE", channel)
        except (ConnectionEnded, EngineReplyError):
            wire.cut()

    def send_command(self, *command: Argument) -> Deferred[Any]:
        """Send a command and return its reply."""
        wire = self._asking.wire
        if wire is not None:
            return wire.send_command(*command).addErrback(self._refused)
        if self._asking.tried or len(self._early) >= MOST_EARLY:
            return fail(BoardAway())
        early: Deferred[Any] = Deferred()  # the first connection is still being made
        self._early.append(early)
        return early.addCallback(lambda _: self.send_command(*command))

    def run(self, script: Script, keys: list[bytes], arguments: list[bytes]) -> Deferred[Any]:
        """Run a Lua script on the live-state engine and return its reply."""
        if buggify("engine: it goes between a load and its commit") and script is COMMIT:
            _cut(self._asking)
        reply = self.send_command("EVALSHA", script.sha, len(keys), *keys, *arguments)
        if buggify("engine: it goes before its answer to a commit") and script is COMMIT:
            reply.addCallback(self._lose_reply)
        return reply

    def _lose_reply(self, _: Any) -> Any:
        _cut(self._asking)
        raise BoardAway

    def _first_tried(self) -> None:
        early, self._early = self._early, []
        for waiting in early:
            if not waiting.called:
                waiting.callback(None)

    def _refused(self, failure: Any) -> Any:
        failure.trap(EngineReplyError, ConnectionEnded)
        if failure.check(EngineReplyError):
            text = failure.getErrorMessage()
            if self._warned.due(text.partition(" ")[0], self.seconds()):
                log.error("the live-state server at LIVE_URL refuses a command: {why}", why=text)
            if text.startswith("NOSCRIPT"):
                _cut(self._asking)  # the scripts were flushed: a reconnect loads them again
            elif any(word in text for word in STALE):
                _cut(self._asking)
                _cut(self._listening)
        raise BoardAway from failure.value

    async def _ready(self, wire: EngineWire) -> None:
        for script in SCRIPTS:
            await wire.send_command("SCRIPT", "LOAD", script.text)
        while self._preparations:
            await self._preparations[0](wire.send_command)
            del self._preparations[0]

    async def _listens(self, wire: EngineWire) -> None:
        if buggify("engine: we listen again late"):
            await self.pause(LISTENS_LATE_S)
        for channel in self._channels:
            await wire.send_command("SUBSCRIBE", channel)
        if self._joined is not None:
            self._joined()

    def _message(self, channel: bytes, message: bytes) -> None:
        if self._pushed is not None:
            self._pushed(channel, message)


def _cut(connection: EngineConnection) -> None:
    if connection.wire is not None:
        connection.wire.cut()


@define(eq=False, slots=False)
class EngineConnection:
    """A connection that reconnects automatically; ``wire`` is None while disconnected.

    ``prepare`` sends the first commands. A PING every ``BEAT_S`` detects a dead connection.
    """

    reactor: Any
    address: EngineAddress
    prepare: Callable[[EngineWire], Any]
    pushed: Pushed | None = None
    left: Callable[[], None] | None = field(default=None, init=False)
    first: Callable[[], None] | None = field(default=None, init=False)  # after the first attempt
    tried: bool = field(default=False, init=False)
    wire: EngineWire | None = field(default=None, init=False)
    _later: Any = field(default=None, init=False)  # the next attempt
    _beats: Every = field(init=False)
    _trying: Deferred[Any] | None = field(default=None, init=False)
    _made: EngineWire | None = field(default=None, init=False)
    _running: bool = field(default=False, init=False)
    _lost_at: float | None = field(default=None, init=False)
    _warned: Throttle = field(factory=Throttle, init=False)
    _dice: Any = field(factory=generator, init=False)

    @_beats.default
    def _every(self) -> Every:
        return Every(self.reactor, BEAT_S, self._beat, "sending a heartbeat to the engine")

    def start(self) -> None:
        self._running = True
        self._connect()

    def stop(self) -> None:
        self._running = False
        self._beats.stopService()
        if self._later is not None and self._later.active():
            self._later.cancel()
        if self._trying is not None:
            self._trying.cancel()
        if self._made is not None:
            self._made.cut()

    def _connect(self) -> None:
        self._trying = Deferred.fromCoroutine(self._try())
        self._trying.addErrback(self._failed)
        if not self.tried:
            self._trying.addBoth(self._finish_first)

    def _finish_first(self, _: Any) -> None:
        self.tried = True
        if self.first is not None:
            self.first()

    async def _try(self) -> None:
        address = self.address
        endpoint: Any = HostnameEndpoint(self.reactor, address.host, address.port, CONNECT_S)
        if address.tls:
            endpoint = wrapClientTLS(_trust(address), endpoint)
        connecting = endpoint.connect(_Wires(self._build))
        wire: EngineWire = await connecting.addTimeout(NAME_S + CONNECT_S, self.reactor)
        self._made = wire
        if address.password:
            user = (address.user,) if address.user else ()
            await wire.send_command("AUTH", *user, address.password)
        if address.db:
            await wire.send_command("SELECT", address.db)
        await wire.send_command("PING")
        await self.prepare(wire)
        self.wire = wire
        if self._lost_at is not None:
            gone = self.reactor.seconds() - self._lost_at
            self._lost_at = None
            log.info(
                "the live-state server at LIVE_URL is connected again after {gone:.1f} s", gone=gone
            )
        self._beats.startService()

    def _build(self, _: Any) -> EngineWire:
        return EngineWire(self.reactor, self._on_wire_lost, self.pushed)

    def _failed(self, failure: Any) -> None:
        if not self._running:
            return
        if failure.check(EngineReplyError):  # a wrong password, or the engine is still loading
            text = failure.getErrorMessage()
            if self._warned.due(text.partition(" ")[0], self.reactor.seconds()):
                log.error(
                    "the live-state server at LIVE_URL refuses the connection: {why}", why=text
                )
        elif not failure.check(CancelledError) and self._warned.due("", self.reactor.seconds()):
            text = (
                "the live-state server at LIVE_URL cannot be reached: {why}; "
                "check that the server is running"
            )
            log.error(text, why=failure.getErrorMessage())
        if self._made is not None and self._made.up:
            self._made.cut()
        self._again()

    def _on_wire_lost(self, wire: EngineWire) -> None:
        if wire is not self.wire:
            return  # the wire was not ready yet: ``_failed`` handles the loss
        self.wire = None
        self._beats.stopService()
        if self.left is not None:
            self.left()
        if self._running:
            self._lost_at = self.reactor.seconds()
            if self._warned.due("lost", self.reactor.seconds()):
                log.warn("the connection to the live-state server at LIVE_URL was lost")
            self._again()

    def _again(self) -> None:
        if self._later is not None and self._later.active():
            self._later.cancel()
        wait = AGAIN_S * (1 + self._dice.random() / 2)  # spreads the workers' reconnects
        self._later = self.reactor.callLater(wait, self._connect)

    def _beat(self) -> None:
        if self.wire is not None:
            self.wire.send_command("PING").addErrback(lambda _: None)


@define(eq=False, slots=False)
class _Wires(Factory):
    noisy = False
    buildProtocol: Any


def _trust(address: EngineAddress) -> Any:
    """Return the TLS options of one connection; each call reads the CA file again."""
    if address.ca is None:
        return optionsForClientTLS(address.host)
    roots = [Certificate.loadPEM(pem.encode()) for pem in authorities(address.ca)]
    return optionsForClientTLS(address.host, trustRootFromCertificates(roots))
