"""The page about the chat's protocol: a real conversation, and tables generated from the code."""

from collections.abc import Callable, Iterator

from attrs import define, field

from svcserver.chat import adapter, messages, rates, rooms, server, session, stanza
from svcserver.chat.kinds import KINDS
from svcserver.chat.session import WAYS, SessionStage
from tests.chat.fixture import DOMAIN, ChatFixture, Client

LIMITS = {
    "bytes of a message": stanza.MAX_BYTES,
    "elements of a stanza": stanza.MAX_ELEMENTS,
    "depth of a stanza": stanza.MAX_DEPTH,
    "attributes of an element": stanza.MAX_ATTRIBUTES,
    "characters of a line": messages.MAX_BODY,
    "stanzas, at once and per minute": f"{rates.STANZAS.burst}, {rates.STANZAS.per_minute}",
    "rooms entered, at once and per minute": f"{rates.JOINS.burst}, {rates.JOINS.per_minute}",
    "rooms of a session": rooms.MAX_ROOMS_PER_SESSION,
    "occupants of a room, in one process and over several": (
        f"{rooms.MAX_OCCUPANTS}, {server.SHARED_OCCUPANTS}"
    ),
    "seconds to log in, and then to bind": f"{session.LOGIN_S:.0f}, {session.BIND_S:.0f}",
    "seconds of silence before the server pings": f"{session.SILENCE_S:.0f}",
    "seconds of silence before the connection ends": f"{session.ANSWER_S:.0f}",
    "bytes unsent before a slow reader is ended": adapter.BACKLOG,
}


@define(eq=False)
class Shown(Client):
    """A client that records what it sends."""

    sent: list[str] = field(factory=list)

    def send(self, text: str) -> list[str]:
        self.sent.append(text)
        self.session.received(text.encode())
        return []


def page() -> str:
    """Return the page about the chat protocol as Markdown."""
    return "\n".join(
        [
            "# Chat protocol",
            "",
            "Look up here what a chat client sends and receives. Written from the code. The",
            "protocol is XMPP (RFC 6120, 6121, XEP-0045) in WebSocket text messages (RFC 7395),",
            f"subprotocol `{adapter.SUBPROTOCOL}`. One message is one stanza. Everything that is",
            "not shown here is dropped.",
            *_talk(),
            *_table("Rooms", ("name", "who may enter"), _rooms()),
            *_table("Stages of a connection", ("stage", "the connection", "leads to"), _stages()),
            *_table("Limits", ("what", "at most"), ((k, str(v)) for k, v in LIMITS.items())),
        ]
    )


def _talk() -> Iterator[str]:
    """Yield a conversation of two clients."""
    fixture = ChatFixture()
    plain, bo = fixture.connect(1), fixture.bound(2)
    ada = Shown(plain.session, plain.wire, plain.number, plain.resource)
    bo.join("City-1")
    bo.take_texts()
    steps: tuple[tuple[str, Callable[[], object]], ...] = (
        ("Ada opens a stream", ada.open),
        ("logs in: SASL PLAIN of account and token", ada.auth),
        ("opens the stream again", ada.open),
        ("binds her resource", ada.bind),
        ("enters the city", lambda: ada.join("City-1")),
        ("sends a line", lambda: ada.say("City-1", "Hello")),
        ("whispers to Bo", lambda: ada.whisper(bo.jid, "A hunt?")),
        ("leaves the city", lambda: ada.leave("City-1")),
    )
    yield from ("", "## A conversation", "")
    yield f"Ada's and Bo's clients with a host at `{DOMAIN}`; `>` is sent, `<` is received."
    for title, step in steps:
        step()
        sent, ada.sent = ada.sent, []
        yield from ("", f"**{title}**", "", "```text")
        yield from (f"> Ada: {entry}" for entry in sent)
        yield from (f"< Ada: {entry}" for entry in ada.take_texts())
        yield from (f"< Bo:  {entry}" for entry in bo.take_texts())
        yield "```"


def _rooms() -> Iterator[tuple[str, ...]]:
    for name, kind in KINDS.items():
        everyone = "everybody" if kind.may_enter is None else f"the members of that {name.lower()}"
        yield f"`{name}{'-' if kind.hyphen else ''}<id>`", everyone


def _stages() -> Iterator[tuple[str, ...]]:
    for stage in SessionStage:
        ways = {
            f"{after.name} ({step.__name__})" for before, step, after in WAYS if before is stage
        }
        yield stage.name, stage.value, ", ".join(sorted(ways))


def _table(title: str, heads: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield from ("", f"## {title}", "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}")
    yield from (f"| {' | '.join(row)} |" for row in rows)
