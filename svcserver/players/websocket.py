"""The chat client's transport on a real network: an autobahn WebSocket."""

from typing import Any

from autobahn.exception import Disconnected
from autobahn.twisted.websocket import WebSocketClientFactory, WebSocketClientProtocol
from twisted.internet.endpoints import TCP4ClientEndpoint

from svcserver.players.chat import ANSWER_S, ChatClient

CONNECT_S = 10.0


class ChatSocket(WebSocketClientProtocol):
    """One WebSocket connection of a chat client."""

    client: ChatClient

    def onOpen(self) -> None:
        transport: Any = self.transport
        transport.setTcpNoDelay(True)
        self.client.opened(self)

    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        self.client.arrived(payload.decode("utf-8", "replace"))

    def onCloseFrame(self, code: int, reasonRaw: bytes) -> Any:
        answered = super().onCloseFrame(code, reasonRaw)
        self.client.ended()  # do not wait for onClose: nothing more can be sent
        return answered

    def onClose(self, wasClean: bool, code: int | None, reason: str | None) -> None:
        self.client.ended()

    def send(self, text: str) -> None:
        try:
            self.sendMessage(text.encode())
        except Disconnected:
            self.client.ended()
            raise self.client.error("the connection is closing") from None

    def close(self) -> None:
        self.dropConnection(abort=False)


async def connect(reactor: Any, client: ChatClient, port: int, host: str = "127.0.0.1") -> None:
    """Connect the chat client, which is notified when the WebSocket opens.

    If the connection fails, raises the exception that ``client.error`` creates.
    """
    factory = WebSocketClientFactory(f"ws://{host}:{port}//", protocols=["xmpp"], reactor=reactor)
    factory.protocol = ChatSocket
    factory.setProtocolOptions(openHandshakeTimeout=ANSWER_S)  # the server may restart meanwhile
    try:
        endpoint = TCP4ClientEndpoint(reactor, host, port, timeout=CONNECT_S)
        socket: Any = await endpoint.connect(factory)
    except Exception as error:
        raise client.error(f"the connection failed: {type(error).__name__}") from error
    socket.client = client
