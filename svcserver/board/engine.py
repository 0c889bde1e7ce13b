"""The engine as the board sees it: two connections that are always being renewed.

One is for commands, one listens to channels. While the first is away whoever asks is refused at
once; nobody waits for an engine that does not answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.protocol import Factory
from twisted.internet.ssl import Certificate, optionsForClientTLS, trustRootFromCertificates
from twisted.internet.task import deferLater
from twisted.logger import Logger

from svcserver.board.address import Address
from svcserver.board.authority import authorities
from svcserver.board.connection import Argument, ConnectionEnded, EngineError, Wire
from svcserver.board.scripts import COMMIT, SCRIPTS, Script
from svcserver.kernel.buggify import buggify
from svcserver.kernel.every import Every
from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.system import generator
from svcserver.kernel.throttle import Throttle

log = Logger()

CONNECT_S = 1.0
NAME_S = 2.0  # for the host's name, which the system's resolver looks up as long as it likes
AGAIN_S = 0.25  # between two tries to connect, half as much again by chance
BEAT_S = 1.0  # between two signs of life that are asked of the listening connection
RETRY_S = 1  # for who is refused
# an engine that another has taken over from, or that is none yet: who connects anew may find that
STALE = ("READONLY", "MASTERDOWN", "LOADING")
LISTENS_LATE_S = 3.0  # in a simulation alone
MOST_EARLY = 1_000  # who ask before the first connection is made, and wait for it

Pushed = Callable[[bytes, bytes], None]
Ask = Callable[..., Deferred[Any]]  # gets the words of a command


class BoardAway(Unavailable):
    """The engine that keeps live state does not answer: refused with 503."""

    def __init__(self) -> None:
        super().__init__("live state cannot be reached now", retry_after_s=RETRY_S)


class Engine(Protocol):
    """What the board asks of an engine."""

    def run(self, script: Script, keys: list[bytes], arguments: list[bytes]) -> Deferred[Any]:
        """Run a script; fails with BoardAway."""

    def ask(self, *command: Argument) -> Deferred[Any]:
        """Give a command; fails with BoardAway."""

    def before_all(self, look: Callable[[Ask], Awaitable[None]]) -> None:
        """``look`` runs once, on the first connection and before any other command."""

    def subscribe(self, channel: bytes) -> None:
        """From now on the listener hears this channel, after every new connection, too."""

    def hear(self, pushed: Pushed, joined: Callable[[], None], lost: Callable[[], None]) -> None:
        """``pushed`` gets each message; the others say when a connection listens, or no more."""

    def seconds(self) -> float:
        """The reactor's clock, in seconds."""

    def pause(self, seconds: float) -> Deferred[None]:
        """Fires after so many seconds, on the reactor's clock; cancellable."""

    @property
    def space(self) -> str:
        """Tells databases of one engine apart, whose channels are common."""


@define(eq=False, slots=False)
class RemoteEngine(Service):
    """An ``Engine`` over TCP or TLS; connects from its start to its stop."""

    reactor: Any
    address: Address
    _pushed: Pushed | None = field(default=None, init=False)
    _joined: Callable[[], None] | None = field(default=None, init=False)
    _channels: list[bytes] = field(factory=list, init=False)
    _asking: Connection = field(init=False)
    _listening: Connection = field(init=False)
    _said: Throttle = field(factory=Throttle, init=False)
    _early: list[Deferred[Any]] = field(factory=list, init=False)  # asked before all that
    _looks: list[Callable[[Ask], Awaitable[None]]] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._asking = Connection(self.reactor, self.address, self._ready)
        self._asking.first = self._first_tried
        self._listening = Connection(self.reactor, self.address, self._listens, self._message)

    @property
    def space(self) -> str:
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
        seconds: float = self.reactor.seconds()
        return seconds

    def pause(self, seconds: float) -> Deferred[None]:
        return deferLater(self.reactor, seconds)

    def hear(self, pushed: Pushed, joined: Callable[[], None], lost: Callable[[], None]) -> None:
        self._pushed, self._joined, self._listening.lost = pushed, joined, lost

    def before_all(self, look: Callable[[Ask], Awaitable[None]]) -> None:
        self._looks.append(look)

    def subscribe(self, channel: bytes) -> None:
        self._channels.append(channel)
        wire = self._listening.wire
        if wire is not None:
            Deferred.fromCoroutine(self._follow(wire, channel))

    async def _follow(self, wire: Wire, channel: bytes) -> None:
        try:
            await wire.ask("SUBSCRIBE", channel)
        except (ConnectionEnded, EngineError):
            wire.cut()

    def ask(self, *command: Argument) -> Deferred[Any]:
        return self._asked(command)

    def run(self, script: Script, keys: list[bytes], arguments: list[bytes]) -> Deferred[Any]:
        if buggify("engine: it goes between a load and its commit") and script is COMMIT:
            _cut(self._asking)
        asked = self._asked(("EVALSHA", script.sha, len(keys), *keys, *arguments))
        if buggify("engine: it goes before its answer to a commit") and script is COMMIT:
            asked.addCallback(self._unheard)
        return asked

    def _unheard(self, _: Any) -> Any:
        _cut(self._asking)
        raise BoardAway

    def _asked(self, command: tuple[Argument, ...]) -> Deferred[Any]:
        wire = self._asking.wire
        if wire is not None:
            return wire.ask(*command).addErrback(self._refused)
        if self._asking.tried or len(self._early) >= MOST_EARLY:
            return _away()
        early: Deferred[Any] = Deferred()  # the first connection is still being made
        self._early.append(early)
        return early.addCallback(lambda _: self._asked(command))

    def _first_tried(self) -> None:
        early, self._early = self._early, []
        for one in early:
            if not one.called:
                one.callback(None)

    def _refused(self, why: Any) -> Any:
        if why.check(EngineError):
            text = why.getErrorMessage()
            if self._said.due(text.partition(" ")[0], self.seconds()):
                log.error("the engine of LIVE_URL refuses: {why}", why=text)
            if text.startswith("NOSCRIPT"):
                _cut(self._asking)  # somebody flushed the scripts: connecting loads them
            elif any(word in text for word in STALE):
                _cut(self._asking)
                _cut(self._listening)
            raise BoardAway from why.value
        if why.check(ConnectionEnded):
            raise BoardAway from why.value
        return why

    async def _ready(self, wire: Wire) -> None:
        for script in SCRIPTS:
            await wire.ask("SCRIPT", "LOAD", script.text)
        while self._looks:
            await self._looks[0](wire.ask)
            del self._looks[0]

    async def _listens(self, wire: Wire) -> None:
        if buggify("engine: we listen again late"):
            await self.pause(LISTENS_LATE_S)
        for channel in self._channels:
            await wire.ask("SUBSCRIBE", channel)
        if self._joined is not None:
            self._joined()

    def _message(self, channel: bytes, message: bytes) -> None:
        if self._pushed is not None:
            self._pushed(channel, message)


def _cut(connection: Connection) -> None:
    if connection.wire is not None:
        connection.wire.cut()


@define(eq=False, slots=False)
class Connection:
    """Connects again and again; ``wire`` is there while the connection can be used.

    ``prepare`` asks what must be asked before that. A connection is asked for a sign of life
    every ``BEAT_S``, so that one which went silent is found.
    """

    reactor: Any
    address: Address
    prepare: Callable[[Wire], Any]
    pushed: Pushed | None = None
    lost: Callable[[], None] | None = field(default=None, init=False)
    first: Callable[[], None] | None = field(default=None, init=False)  # after the first try
    tried: bool = field(default=False, init=False)
    wire: Wire | None = field(default=None, init=False)
    _later: Any = field(default=None, init=False)  # the next try
    _beats: Every = field(init=False)
    _trying: Deferred[Any] | None = field(default=None, init=False)
    _made: Wire | None = field(default=None, init=False)
    _running: bool = field(default=False, init=False)
    _lost_at: float | None = field(default=None, init=False)
    _said: Throttle = field(factory=Throttle, init=False)
    _dice: Any = field(factory=generator, init=False)

    @_beats.default
    def _every(self) -> Every:
        return Every(self.reactor, BEAT_S, self._beat, "asking the engine for a sign of life")

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
            self._trying.addBoth(self._first_over)

    def _first_over(self, _: Any) -> None:
        self.tried = True
        if self.first is not None:
            self.first()

    async def _try(self) -> None:
        where: Any = HostnameEndpoint(self.reactor, self.address.host, self.address.port, CONNECT_S)
        if self.address.tls:
            where = wrapClientTLS(_trust(self.address), where)
        connecting = where.connect(_Wires(self._build))
        wire: Wire = await connecting.addTimeout(NAME_S + CONNECT_S, self.reactor)
        self._made = wire
        address = self.address
        if address.password:
            who = (address.user, address.password) if address.user else (address.password,)
            await wire.ask("AUTH", *who)
        if address.db:
            await wire.ask("SELECT", address.db)
        await wire.ask("PING")
        await self.prepare(wire)
        self.wire = wire
        if self._lost_at is not None:
            gone = self.reactor.seconds() - self._lost_at
            self._lost_at = None
            log.info("the engine of LIVE_URL is back after {gone:.1f} s", gone=gone)
        self._beats.startService()

    def _build(self, _: Any) -> Wire:
        return Wire(self.reactor, self._lost, self.pushed)

    def _failed(self, why: Any) -> None:
        if not self._running:
            return
        if why.check(EngineError):  # a wrong password, or it is still loading
            text = why.getErrorMessage()
            if self._said.due(text.partition(" ")[0], self.reactor.seconds()):
                log.error("the engine of LIVE_URL refuses us: {why}", why=text)
        elif not why.check(CancelledError) and self._said.due("", self.reactor.seconds()):
            text = "the engine of LIVE_URL cannot be reached: {why}; is it running?"
            log.error(text, why=why.getErrorMessage())
        if self._made is not None and self._made.up:
            self._made.cut()
        self._again()

    def _lost(self, wire: Wire) -> None:
        if wire is not self.wire:
            return  # it was not ready yet: ``_failed`` is told
        self.wire = None
        self._beats.stopService()
        if self.lost is not None:
            self.lost()
        if self._running:
            self._lost_at = self.reactor.seconds()
            if self._said.due("lost", self.reactor.seconds()):
                log.warn("the connection to the engine of LIVE_URL is lost")
            self._again()

    def _again(self) -> None:
        if self._later is not None and self._later.active():
            self._later.cancel()
        wait = AGAIN_S * (1 + self._dice.random() / 2)  # spreads workers
        self._later = self.reactor.callLater(wait, self._connect)

    def _beat(self) -> None:
        if self.wire is not None:
            self.wire.ask("PING").addErrback(lambda _: None)


@define(eq=False, slots=False)
class _Wires(Factory):
    """Makes the protocol of a connection."""

    noisy = False
    buildProtocol: Any


def _trust(address: Address) -> Any:
    """What a TLS connection to it must prove; the file is read anew for each connection."""
    if address.ca is None:
        return optionsForClientTLS(address.host)
    roots = [Certificate.loadPEM(one.encode()) for one in authorities(address.ca)]
    return optionsForClientTLS(address.host, trustRootFromCertificates(roots))


def _away() -> Deferred[Any]:
    refused: Deferred[Any] = Deferred()
    refused.errback(BoardAway())
    return refused
