"""A chat without sockets: a game with fixed answers, recording wires, and clients."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from svcserver.board.rehearsed import RehearsedBoard
from svcserver.chat import stanza
from svcserver.chat.ports import About, BadToken
from svcserver.chat.rooms import Rooms
from svcserver.chat.server import ChatServer
from svcserver.chat.session import Session
from svcserver.chat.settings import ChatSettings

DOMAIN = "127.0.0.1:61000"
NOW = 1_790_000_000.0


def account(number: int) -> str:
    return f"UID-00000000-0000-4000-8000-{number:012d}"


def resource(number: int) -> str:
    return f"V2:Word:WIN::{number:032x}"


@define
class FakeGame:
    """A fake ``Game`` whose answers the test sets; an account's token is ``token <account>``."""

    remembers = False
    people: dict[str, About] = field(factory=dict)
    parties: dict[str, str] = field(factory=dict)
    silent: bool = False
    waiting: list[tuple[Deferred[About | None], str]] = field(factory=list)
    requests: int = 0
    muted: set[str] = field(factory=set)  # networks

    def account_of(self, token: str) -> str:
        if token == "expired":
            raise BadToken("expired")
        if not token.startswith("token "):
            raise BadToken("bad-token")
        return token[6:]

    def about(self, account: str, networks: frozenset[str]) -> Deferred[About | None]:
        self.requests += 1
        if not self.silent:
            result = self.people.get(account)
            muted = networks & self.muted
            return succeed(result and evolve(result, muted_from=muted))
        answer: Deferred[About | None] = Deferred()
        self.waiting.append((answer, account))
        return answer

    def answer(self) -> None:
        waiting, self.waiting = self.waiting, []
        for answer, account in waiting:
            answer.callback(self.people.get(account))

    def party_of(self, account: str) -> str | None:
        return self.parties.get(account)

    def befriend(self, item: str, another: str) -> None:
        for me, you in ((item, another), (another, item)):
            self.people[me] = evolve(self.people[me], friends=self.people[me].friends | {you})

    def block(self, by: str, whom: str) -> None:
        mine, theirs = self.people[by], self.people[whom]
        self.people[by] = evolve(mine, blocks=mine.blocks | {whom})
        self.people[whom] = evolve(theirs, blocked_by=theirs.blocked_by | {by})


@define(eq=False)
class RecordingWire:
    """A fake ``Wire`` that records what is sent and how it is closed."""

    sent: list[str] = field(factory=list)
    ended: list[Any] = field(factory=list)
    behind: int = 0  # frames that had to be sent after others' frames

    def send(self, frame: bytes) -> None:
        assert not self.ended
        self.sent.append(frame[{126: 4, 127: 10}.get(frame[1], 2) :].decode())

    def take_turn(self, work: Callable[[], None]) -> None:
        work()

    def send_behind(self, frame: bytes) -> None:
        self.behind += 1
        self.send(frame)

    def end(self, code: int | None, reason: str = "") -> None:
        self.ended.append(code)


@define(eq=False)
class Client:
    """A chat connection that behaves like that of the game client."""

    session: Session
    wire: RecordingWire
    number: int
    resource: str

    @property
    def account(self) -> str:
        return account(self.number)

    @property
    def jid(self) -> str:
        return f"{self.account}@{DOMAIN}/{self.resource}"

    @property
    def nick(self) -> str:
        return f"Player{self.number}:{self.account}:{self.resource}"

    def send(self, text: str) -> list[str]:
        self.session.received(text.encode())
        return self.take_texts()

    def take_texts(self) -> list[str]:
        """Return the texts received since the last call."""
        sent, self.wire.sent = self.wire.sent, []
        for item in sent:
            stanza.parse(item)
        return sent

    def open(self, to: str = DOMAIN) -> list[str]:
        return self.send(f'<open xmlns="{stanza.FRAMING}" to="{to}" version="1.0"/>')

    def auth(self, token: str | None = None, *, who: str | None = None, zid: str = "") -> list[str]:
        name = self.account if who is None else who
        word = f"token {self.account}" if token is None else token
        proof = base64.b64encode(f"{zid}\0{name}\0{word}".encode()).decode()
        return self.send(f'<auth xmlns="{stanza.SASL}" mechanism="PLAIN">{proof}</auth>')

    def bind(self, name: str | None = None) -> list[str]:
        inner = f"<resource>{self.resource if name is None else name}</resource>"
        return self.send(f'<iq type="set" id="b"><bind xmlns="{stanza.BIND}">{inner}</bind></iq>')

    def log_in(self) -> Client:
        self.open()
        self.auth()
        self.open()
        replies = self.bind()
        assert self.jid in replies[0], replies
        return self

    def join(self, room: str, nick: str | None = None, host: str = f"muc.{DOMAIN}") -> list[str]:
        to = stanza.attribute(f"{room}@{host}/{self.nick if nick is None else nick}")
        return self.send(f'<presence to="{to}"><x xmlns="{stanza.MUC}"/></presence>')

    def leave(self, room: str) -> list[str]:
        return self.send(f'<presence type="unavailable" to="{room}@muc.{DOMAIN}/{self.nick}"/>')

    def say(self, room: str, text: str, stanza_id: str = "m1") -> list[str]:
        return self.send(
            f'<message type="groupchat" to="{room}@muc.{DOMAIN}" id="{stanza_id}">'
            f"<body>{stanza.text(text)}</body></message>"
        )

    def whisper(self, to: str, text: str) -> list[str]:
        return self.send(
            f'<message type="chat" to="{to}" id="w1"><body>{stanza.text(text)}</body></message>'
        )

    @property
    def end(self) -> str:
        return self.session.why_ended


@define(eq=False)
class ChatFixture:
    """A chat server with its game and its clock."""

    settings: ChatSettings = field(factory=ChatSettings)
    game: FakeGame = field(factory=FakeGame)
    clock: Clock = field(factory=Clock)
    rooms: Rooms = field(factory=Rooms)
    board: RehearsedBoard | None = None
    server: ChatServer = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.server = ChatServer(
            self.settings,
            self.game,
            self.board or RehearsedBoard(self.clock.seconds),
            self.clock,
            lambda: NOW,
            rooms=self.rooms,
        )
        for number in range(1, 400):
            self.game.people[account(number)] = About(f"Player{number}")

    def connect(self, number: int, name: str | None = None, address: str = "") -> Client:
        wire = RecordingWire()
        session = self.server.connect(wire, address, self.clock.seconds())
        return Client(session, wire, number, name if name is not None else resource(number))

    def bound(self, number: int, name: str | None = None) -> Client:
        return self.connect(number, name).log_in()

    def opened(self, number: int = 1, address: str = "") -> Client:
        client = self.connect(number, address=address)
        client.open()
        return client

    def joined(self, number: int, room: str = "City-1") -> Client:
        client = self.bound(number)
        client.join(room)
        return client

    def pair(self) -> tuple[Client, Client]:
        """Return two clients in one room, without unread messages."""
        first, second = self.joined(1), self.joined(2)
        first.take_texts()
        return first, second

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1)
            self.server.tick()
