"""The chat service in the metagame process; if the chat cannot start, only an error is logged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IProtocol
from twisted.logger import Logger

from svcserver.board.board import Board
from svcserver.chat.adapter import CUT_S, ChatFactory
from svcserver.chat.ports import GameAccess
from svcserver.chat.server import ChatServer
from svcserver.chat.settings import ChatSettings
from svcserver.kernel.counters import Counters
from svcserver.kernel.every import Every

log = Logger()

TICK_S = 1.0
LOOK_S = 0.05


def chat_service(
    settings: ChatSettings,
    game: GameAccess,
    board: Board,
    reactor: Any,
    wall_clock: Callable[[], float],
    counters: Counters,
    warnings: Sequence[str] = (),
) -> ChatService:
    """Return the chat service; the caller connects ``server.on_...`` to the game's signals.

    The service logs ``warnings`` when it starts.
    """
    server = ChatServer(settings, game, board, reactor, wall_clock, counters)
    return ChatService(reactor, server, warnings)


@define(eq=False, slots=False)
class ChatService(Service):
    """The chat as a Twisted service, which listens while it runs and ends all sessions on stop."""

    reactor: Any
    server: ChatServer
    warnings: Sequence[str] = ()
    factory: ChatFactory = field(init=False)
    _listening: Any = field(default=None, init=False)
    _ticking: Every = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.factory = ChatFactory(self.server, self.reactor)
        self._ticking = Every(
            self.reactor, TICK_S, lambda: self.server.tick(), "the chat's check of timeouts"
        )

    def startService(self) -> None:
        Service.startService(self)
        for line in self.warnings:
            log.warn("{line}", line=line)
        settings = self.server.settings
        try:
            self._listening = self.reactor.listenTCP(
                settings.port, self.factory, backlog=511, interface=settings.host
            )
        except (CannotListenError, OSError) as why:
            log.error(
                "the chat did not start: CHAT_PORT {host}:{port} is not available: {why}; "
                "stop the program that uses this port, or change CHAT_PORT",
                host=settings.host,
                port=settings.port,
                why=str(getattr(why, "socketError", why)),
            )
            return
        self._ticking.startService()
        log.info(
            "chat: listening on {host}:{port} (nick check {check})",
            host=settings.host,
            port=settings.port,
            check=settings.nick_check,
        )

    def websocket(self, address: Any) -> IProtocol | None:
        """Return a protocol for a chat connection that another listener has accepted.

        Return None if the chat is full or is not running.
        """
        made: IProtocol | None = None
        if self._listening is not None:
            made = self.factory.buildProtocol(address)
        return made

    def stopService(self) -> Deferred[Any]:
        """Stop listening, close all sessions, and wait at most ``CUT_S`` for the clients."""
        Service.stopService(self)
        if self._listening is None:
            return succeed(None)
        listening, self._listening = self._listening, None
        stopped = listening.stopListening()
        self._ticking.stopService()
        self.server.shut()
        gone: Deferred[Any] = Deferred()
        deadline = self.reactor.seconds() + CUT_S
        work = partial(self._check_closed, gone, deadline)
        look = Every(self.reactor, LOOK_S, work, "waiting for open chats", at_once=True)
        gone.addCallback(lambda _: look.stopService())
        look.startService()
        return gone.addCallback(lambda _: stopped)

    def _check_closed(self, gone: Deferred[Any], deadline: float) -> None:
        late = self.reactor.seconds() >= deadline
        if late:
            for connection in list(self.factory.connections):
                connection.abort()
        if (late or not self.factory.connections) and not gone.called:
            gone.callback(None)
