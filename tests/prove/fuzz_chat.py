"""The program that ``test_fuzz_chat`` runs: hostile bytes against a chat with two players.

    python -m tests.prove.fuzz_chat CORPUS -max_total_time=20

The first byte of an input selects the sender of the other bytes: a player in a room, who sends them
as a stanza, or a stranger, who sends them unchanged after the WebSocket upgrade. No input may cause
an exception or log a failure, and everything that the second player receives must be well-formed.
"""

from __future__ import annotations

import sys
from typing import Any

import atheris

with atheris.instrument_imports(include=["svcserver.chat", "autobahn.websocket"]):
    import txaio
    from autobahn.websocket import protocol  # noqa: F401 - instrumented

    from svcserver.chat import stanza
    from svcserver.chat.adapter import ChatFactory

from twisted.internet.error import ConnectionDone
from twisted.logger import LogEvent, globalLogPublisher
from twisted.python.failure import Failure

from tests.chat.fixture import ChatFixture, Client
from tests.chat.sockets import upgrade
from tests.chat.test_adapter import Socket

ROOM = "City-1"
STANZA_NAMES = ("presence", "message", "iq", "close")

failures: list[str] = []


def listen(event: LogEvent) -> None:
    """Record a failure in the log as a finding of the fuzzer."""
    if "log_failure" in event:
        failures.append(event["log_failure"].getTraceback())


class Stage:
    """Two players in a room, who are both replaced when the hostile player is disconnected."""

    def __init__(self) -> None:
        self.fixture = ChatFixture()
        self.factory = ChatFactory(self.fixture.server, self.fixture.clock)
        self.bad: Client = self.fixture.bound(1)
        self.good: Client = self.fixture.bound(2)
        for entry in (self.good, self.bad):
            entry.join(ROOM)

    def stanza(self, text: str) -> None:
        """Fuzz the stanzas of a player who is logged in."""
        self.bad.send(text)
        for messages in self.good.take_texts():
            assert stanza.parse(messages).name in STANZA_NAMES, messages

    def socket(self, data: bytes) -> None:
        """Fuzz the frames of a client after the WebSocket upgrade, before login."""
        connection: Any = self.factory.buildProtocol(None)
        connection.makeConnection(Socket())
        connection.dataReceived(upgrade(""))
        connection.dataReceived(data)
        for _ in range(1 + len(data) // 512):
            self.fixture.clock.advance(0)
        connection.connectionLost(Failure(ConnectionDone()))
        assert not self.factory.connections

    def rest(self) -> None:
        """Let every rate limit recover; both players send something, so that neither is idle."""
        self.fixture.clock.advance(40)
        self.fixture.server.tick()
        for entry in (self.good, self.bad):
            entry.send("<x/>")


stage = Stage()


def one_input(data: bytes) -> None:
    global stage
    if data[:1] < b"\x80":
        stage.stanza(data[1:].decode("utf-8", "replace"))
    else:
        stage.socket(data[1:])
    stage.rest()
    if stage.bad.end or stage.good.end:
        stage = Stage()
    assert not failures, failures[0]


if __name__ == "__main__":
    txaio.use_twisted()
    globalLogPublisher.addObserver(listen)  # type: ignore[arg-type]
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
