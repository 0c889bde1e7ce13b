"""The game's chat client without I/O: XMPP stanzas over an injected transport."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.words.protocols.jabber.sasl_mechanisms import Plain
from twisted.words.xish.domish import Element

from svcserver.chat import stanza
from svcserver.chat.stanza import child, element
from svcserver.kernel.secrets import hex_token
from svcserver.players.http import NoAnswer

ANSWER_S = 30.0
REFUSABLE = 50  # sent lines to remember, because the server may refuse them later
SESSION = "urn:ietf:params:xml:ns:xmpp-session"
ENDINGS = {
    "closed": "the connection closed",
    "silent": "the server did not answer",
    "refused": "the server refused the connection",
    "unreadable": "the server sent invalid XML",
}  # the sentence for each value of ``how_ended``
_OPENED = element(None, "opened")  # a pseudo-stanza for ``hear``


class Transport(Protocol):
    """A WebSocket that sends each string as one frame."""

    def send(self, text: str) -> None: ...

    def close(self) -> None: ...


@frozen
class Line:
    """A received whisper or room line; in a room, ``resource`` is the speaker's nickname."""

    is_whisper: bool
    local: str  # the room, or the account that whispers
    resource: str
    text: str


@define(eq=False)
class _Waiter:
    wanted: Callable[[Element], bool]
    what: str
    answer: Deferred[Element] = field(factory=Deferred)


@define(eq=False)
class ChatClient:
    """The chat session of one player. Its transport calls ``opened``, ``arrived`` and ``ended``."""

    clock: Any  # IReactorTime
    account: str
    name: str
    domain: str
    resource: str = field(factory=lambda: f"V2:svc:WIN::{hex_token(32)}")
    on_line: Callable[[Line], None] = lambda line: None
    on_refused: Callable[[str], None] = lambda text: None  # gets the text of a refused line
    on_removed: Callable[[str], None] = lambda room: None
    on_end: Callable[[], None] = lambda: None
    error: Callable[[str], Exception] = NoAnswer  # creates the exception that every method raises
    transport: Transport | None = None
    alive: bool = True
    how_ended: str = ""  # a key of ``ENDINGS``
    bound: bool = False  # the log-in is over
    rooms: list[str] = field(factory=list)
    refused: int = 0
    _lines: int = field(default=0, init=False)
    _refusable: dict[str, str] = field(factory=dict, init=False)  # id -> text
    _waiters: list[_Waiter] = field(factory=list, init=False)

    @property
    def nick(self) -> str:
        """Return the nickname in the game client's format."""
        return f"{self.name}:{self.account}:{self.resource}"

    def room_address(self, room: str) -> str:
        """Return the XMPP address of the room."""
        return f"{room}@muc.{self.domain}"

    # -- what players do ---------------------------------------------------------

    async def log_in(self, token: str) -> None:
        """Wait until the transport is open; then authenticate, bind and start a session."""
        await self.bind(token)
        await self._set("s1", element(SESSION, "session"))
        self.bound = True

    async def bind(self, token: str) -> None:
        """Wait until the transport is open; then authenticate and bind a resource."""
        if self.transport is None:
            await self.hear("the upgrade", lambda answer: answer is _OPENED)
        opening = element(stanza.FRAMING, "open", to=self.domain, version="1.0")
        self.send(opening)
        await self.hear("the mechanisms", lambda answer: answer.name == "features")
        proof = b64encode(Plain("", self.account, token).getInitialResponse())
        self.send(element(stanza.SASL, "auth", proof.decode(), mechanism="PLAIN"))
        answer = await self.hear("the authentication", lambda answer: answer.uri == stanza.SASL)
        if answer.name != "success":
            self._refused()
        self.send(opening)
        await self.hear("the features", lambda answer: answer.name == "features")
        resource = element(None, "resource", self.resource)
        await self._set("b1", element(stanza.BIND, "bind", resource))

    async def _set(self, number: str, payload: Element) -> None:
        self.send(element(None, "iq", payload, type="set", id=number))
        answer = await self.hear(
            f"the {payload.name}",
            lambda answer: answer.name == "iq" and answer.getAttribute("id") == number,
        )
        if answer.getAttribute("type") != "result":
            self._refused()

    async def enter(self, room: str) -> bool:
        """Join a room; return whether the server allowed it."""
        seat = self.room_address(room)
        prefix = f"{seat}/".lower()  # other servers answer in lower case, as XMPP addresses may
        muc = element(stanza.MUC, "x")
        self.send(element(None, "presence", muc, to=f"{seat}/{self.nick}"))
        answer = await self.hear(
            f"a seat in {room}",
            lambda answer: (
                answer.name == "presence"
                and answer.getAttribute("from", "").lower().startswith(prefix)
                and (answer.getAttribute("type") == "error" or _is_own(answer))
            ),
        )
        if answer.getAttribute("type") == "error":
            return False
        if room not in self.rooms:
            self.rooms.append(room)
        return True

    def leave(self, room: str) -> None:
        """Leave a room."""
        if room in self.rooms:
            self.rooms.remove(room)
        to = f"{self.room_address(room)}/{self.nick}"
        self.send(element(None, "presence", to=to, type="unavailable"))

    def send_to_room(self, room: str, text: str) -> None:
        """Send a line to a room."""
        self._send_line("groupchat", self.room_address(room), text)

    def whisper(self, account: str, text: str) -> None:
        """Send a line to one player."""
        self._send_line("chat", f"{account}@{self.domain}", text)

    def _send_line(self, kind: str, to: str, text: str) -> None:
        self._lines += 1
        number = f"m{self._lines}"
        self._refusable[number] = text
        self._refusable.pop(f"m{self._lines - REFUSABLE}", None)
        body = element(None, "body", text)
        self.send(element(None, "message", body, type=kind, to=to, id=number))

    def close(self) -> None:
        """Close the stream and the connection."""
        if self.alive and self.transport is not None:
            self.send(stanza.CLOSE)
        self.ended()

    def send(self, node: Element) -> None:
        """Send a stanza; if the session has ended, raise the exception that ``error`` returns."""
        if not self.alive or self.transport is None:
            raise self.error(f"the connection of {self.name} has closed")
        self.transport.send(stanza.serialize(node))

    # -- what the server sends -----------------------------------------------------

    async def hear(self, what: str, wanted: Callable[[Element], bool]) -> Element:
        """Wait for a stanza that ``wanted`` accepts, and return it; a timeout ends the session."""
        if not self.alive:
            raise self.error(f"the connection closed while {self.name} waited for {what}")
        waiter = _Waiter(wanted, what)
        self._waiters.append(waiter)
        timer = self.clock.callLater(ANSWER_S, self.ended, "silent")
        try:
            return await waiter.answer
        finally:
            if timer.active():
                timer.cancel()
            if waiter in self._waiters:  # cancelled
                self._waiters.remove(waiter)

    def opened(self, transport: Transport) -> None:
        self.transport = transport
        self._hand(_OPENED)

    def arrived(self, text: str) -> None:
        """Handle a received stanza: a chat line, a ping or an awaited answer."""
        if not self.alive:
            return
        try:
            node = stanza.parse(text)
        except stanza.Unparseable:
            self.ended("unreadable")
            return
        if node.name == "message":
            self._line(node)
        elif node.name == "iq" and child(node, "ping", stanza.PING) is not None:
            self.send(element(None, "iq", type="result", id=node.getAttribute("id")))
        elif node.name == "presence" and node.getAttribute("type") == "unavailable":
            self._removed(node)
        self._hand(node)

    def _hand(self, node: Element) -> None:
        for waiter in self._waiters:
            if waiter.wanted(node):
                self._waiters.remove(waiter)
                waiter.answer.callback(node)
                return

    def _line(self, node: Element) -> None:
        if node.getAttribute("type") == "error":
            self.refused += 1
            if (text := self._refusable.get(node.getAttribute("id", ""))) is not None:
                self.on_refused(text)
        elif (body := child(node, "body")) is not None:
            local, _, rest = node.getAttribute("from", "").partition("@")
            is_whisper = node.getAttribute("type") != "groupchat"
            resource = rest.partition("/")[2]
            self.on_line(Line(is_whisper, local, resource, stanza.content(body)))

    def _removed(self, node: Element) -> None:
        seat, _, nick = node.getAttribute("from", "").partition("/")
        room = seat.partition("@")[0]
        if nick == self.nick and room in self.rooms:
            self.rooms.remove(room)
            self.on_removed(room)

    def ended(self, how: str = "closed") -> None:
        """End the session; every pending ``hear`` fails."""
        if not self.alive:
            return
        self.alive, self.how_ended = False, how
        self.rooms.clear()
        self.on_end()
        waiters, self._waiters = self._waiters, []
        if self.transport is not None:
            self.transport.close()
        for waiter in waiters:
            error = self.error(f"{ENDINGS[how]} while {self.name} waited for {waiter.what}")
            waiter.answer.errback(error)

    def _refused(self) -> NoReturn:
        self.ended("refused")
        raise self.error(f"the server refused the log-in of {self.name}")


def _is_own(presence: Element) -> bool:
    """Return whether a presence is the client's own.

    The server sends this presence last when the client joins a room.
    """
    info = child(presence, "x", stanza.MUC_USER)
    status = () if info is None else info.elements()
    return any(part.getAttribute("code") == "110" for part in status)
