"""Sends UDP datagrams to a game server until the server replies."""

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import DatagramProtocol

from svcserver.ctl.play.story import PlayFailed
from svcserver.kernel.every import Every

KNOCK_S = 0.25
GIVE_UP_S = 20.0
HELLO, GOODBYE = b"svc hello", b"svc goodbye"


class ServerProbe(DatagramProtocol):
    """A UDP protocol that sends ``words`` repeatedly; ``answer`` fires with the first reply."""

    def __init__(self, reactor: Any, host: str, port: int, words: bytes) -> None:
        self.address, self.words = (host, port), words
        self.answer: Deferred[bytes] = Deferred()
        self._knocking = Every(reactor, KNOCK_S, self._knock, "sending a datagram", at_once=True)

    def startProtocol(self) -> None:
        self._knocking.startService()

    def stopProtocol(self) -> None:
        self._knocking.stopService()

    def datagramReceived(self, data: bytes, address: tuple[str, int]) -> None:
        if address == self.address and not self.answer.called:
            self.answer.callback(data)

    def _knock(self) -> None:
        if self.transport is not None:
            self.transport.write(self.words, self.address)


async def send(reactor: Any, host: str, port: int, source: str, *words: bytes) -> None:
    """Send ``words`` without waiting for a reply; used to end game servers after a failure."""
    listening = reactor.listenUDP(0, DatagramProtocol(), interface=source)
    for word in words:
        listening.write(word, (host, port))
    await listening.stopListening()


async def answer_of(reactor: Any, host: str, port: int, source: str, words: bytes = HELLO) -> bytes:
    """Return the game server's reply to ``words``; raises PlayFailed if there is none."""
    knock = ServerProbe(reactor, host, port, words)
    listening = reactor.listenUDP(0, knock, interface=source)
    try:
        return await knock.answer.addTimeout(GIVE_UP_S, reactor)
    except Exception:
        fault = f"no UDP answer from {host}:{port} within {GIVE_UP_S:.0f} s"
        raise PlayFailed("game server", fault) from None
    finally:
        await listening.stopListening()
