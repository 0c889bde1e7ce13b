"""The baseline of the chat: an autobahn server that verifies tokens but has no chat rules.

The token of each login is signed with RS256. The server sends the same stanzas as our chat, but
parses the client's stanzas with regular expressions.
"""

import base64
import re
import sys
from typing import Any

import jwt
from autobahn.twisted.websocket import WebSocketServerFactory, WebSocketServerProtocol
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from twisted.internet import reactor as installed

MECHANISMS = (
    '<mechanisms xmlns="urn:ietf:params:xml:ns:xmpp-sasl"><mechanism>PLAIN</mechanism></mechanisms>'
)
BIND = '<bind xmlns="urn:ietf:params:xml:ns:xmpp-bind"/>'
OPEN = '<open xmlns="urn:ietf:params:xml:ns:xmpp-framing" from="localhost" id="s" version="1.0"/>'
FEATURES = '<stream:features xmlns:stream="http://etherx.jabber.org/streams">{}</stream:features>'
SUCCESS = '<success xmlns="urn:ietf:params:xml:ns:xmpp-sasl"/>'
RESULT = '<iq xmlns="jabber:client" type="result" id="{id}">{bind}</iq>'
BOUND = '<bind xmlns="urn:ietf:params:xml:ns:xmpp-bind"><jid>{jid}</jid></bind>'
PRESENCE = (
    '<presence xmlns="jabber:client" from="{seat}" to="{to}">'
    '<x xmlns="http://jabber.org/protocol/muc#user">'
    '<item affiliation="none" role="participant" jid="{jid}"/>{own}</x></presence>'
)
LINE = '<message xmlns="jabber:client" type="groupchat" id="m1" from="{seat}">{body}</message>'
_TO = re.compile(rb' to="([^"]+)"')
_ID = re.compile(r' id="([^"]+)"')
_PAYLOAD = re.compile(rb">([^<]+)</auth>")
_BODY = re.compile(r"<body>.*</body>")


class BareChat(WebSocketServerProtocol):
    """A connection.

    While the client is in a room, ``seat`` is its address there, which ends with its nickname.
    """

    account = jid = ""
    here: str = ""  # the room in which the client is
    seat: str = ""

    def connectionMade(self) -> None:
        """Switch Nagle's algorithm off."""
        super().connectionMade()
        self.transport.setTcpNoDelay(True)

    def onConnect(self, request: Any) -> str:
        """Accept an upgrade."""
        return "xmpp"

    def send_stanza(self, text: str) -> None:
        """Send a stanza."""
        self.sendMessage(text.encode())

    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        """Answer a stanza."""
        kind = payload[1:3]
        if kind == b"op":
            self.send_stanza(OPEN)
            self.send_stanza(FEATURES.format(BIND if self.account else MECHANISMS))
        elif kind == b"au":
            self.log_in(payload)
        elif kind == b"iq":
            self.answer(payload.decode())
        elif kind == b"pr":
            self.join(payload)
        elif kind == b"me":
            self.talk(payload.decode())
        elif kind == b"cl":
            self.sendClose()

    def log_in(self, payload: bytes) -> None:
        """Verify the token."""
        match = _PAYLOAD.search(payload)
        assert match is not None
        _, account, token = base64.b64decode(match[1]).decode().split("\0")
        claims = jwt.decode(token, self.factory.key, algorithms=["RS256"])
        assert claims["sub"] == account
        self.account = account
        self.send_stanza(SUCCESS)

    def answer(self, text: str) -> None:
        """Bind the resource, or answer a ping."""
        number = _ID.search(text)
        assert number is not None
        self.jid, bind = self.jid or f"{self.account}@localhost/r", "<bind" in text
        self.send_stanza(
            RESULT.format(id=number[1], bind=BOUND.format(jid=self.jid) if bind else "")
        )

    def join(self, payload: bytes) -> None:
        """Exchange presences with the room's occupants."""
        to = _TO.search(payload)
        assert to is not None
        self.seat = to[1].decode()
        self.here = self.seat.partition("/")[0]
        occupants = self.factory.rooms.setdefault(self.here, {})
        for occupant in occupants:
            presence = PRESENCE.format(seat=occupant.seat, to=self.jid, jid=occupant.jid, own="")
            self.send_stanza(presence)
        for occupant in occupants:
            presence = PRESENCE.format(seat=self.seat, to=occupant.jid, jid=self.jid, own="")
            occupant.send_stanza(presence)
        occupants[self] = None
        own = '<status code="110"/>'
        self.send_stanza(PRESENCE.format(seat=self.seat, to=self.jid, jid=self.jid, own=own))

    def talk(self, text: str) -> None:
        """Send a line to the room; autobahn builds the frame only once for all occupants."""
        body = _BODY.search(text)
        assert body is not None
        line = LINE.format(seat=self.seat, body=body[0])
        prepared = self.factory.prepareMessage(line.encode())
        for occupant in self.factory.rooms[self.here]:
            occupant.sendPreparedMessage(prepared)

    def onClose(self, wasClean: bool, code: int | None, reason: str | None) -> None:
        self.factory.rooms.get(self.here, {}).pop(self, None)


class BareFactory(WebSocketServerFactory):
    """The rooms, and the public key that verifies tokens."""

    protocol = BareChat

    def __init__(self, key: Any) -> None:
        super().__init__(protocols=["xmpp"])
        self.key = key
        self.rooms: dict[str, dict[BareChat, None]] = {}


def main() -> None:
    """Serve on the port in the first argument; the second argument is the public key.

    The key is PEM text, encoded in base64.
    """
    reactor: Any = installed
    key = load_pem_public_key(base64.b64decode(sys.argv[2]))
    reactor.listenTCP(int(sys.argv[1]), BareFactory(key), backlog=511, interface="127.0.0.1")
    reactor.run()


if __name__ == "__main__":
    main()
