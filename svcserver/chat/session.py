"""The protocol of one chat connection as a sans-io state machine. Spec: 2 §4 Chat, §8.

``receive`` turns bytes into effects, strictly in order. While one stanza waits for data from the
game, later stanzas are queued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import ClassVar, Protocol

from attrs import define, field
from automat import TypeMachineBuilder
from twisted.logger import Logger
from twisted.words.xish.domish import Element

from svcserver.chat import requests, stanza
from svcserver.chat.effects import (
    Effect,
    End,
    MakeRoom,
    Over,
    PresenceStatus,
    RefuseLogin,
    SessionBound,
    StanzaReply,
    TooMuch,
)
from svcserver.chat.names import is_domain, is_resource
from svcserver.chat.ports import Wire
from svcserver.chat.rates import Rates
from svcserver.chat.rooms import Occupant
from svcserver.chat.settings import ChatSettings
from svcserver.chat.stanza import Restricted, Unparseable, child, element_frame, parse
from svcserver.kernel.ids import AccountId
from svcserver.kernel.networks import network_of
from svcserver.kernel.secrets import hex_token


class SessionStage(Enum):
    """The stages of a connection."""

    NEW = "connected"
    OPENED = "has opened its stream"
    TRIED = "has sent its only log-in, which is not accepted yet"
    ASKING = "has sent a valid token, and waits for the account's data"
    KNOWN = "has logged in"
    BOUND = "is a session of the account"
    WAITING = "is a session of the account, and waits for the game before it handles more stanzas"
    ENDED = "is over"


@define
class Where:
    """The current stage of a connection, changed only by ``Steps``."""

    stage: SessionStage = SessionStage.NEW


class Steps(Protocol):
    """The state machine's inputs; an input that the current state forbids raises NoTransition.

    Between ``asked`` and ``answered``, the session waits for the game's answer to a request, and
    the client's messages are queued.
    """

    def opened(self) -> None: ...  # the client opened its stream
    def tried(self) -> None: ...  # the client sent its only ``<auth>``
    def logged_in(self) -> None: ...
    def bound(self) -> None: ...
    def asked(self) -> None: ...
    def answered(self) -> None: ...
    def ended(self) -> None: ...


_LOOKUP_STAGES = (
    (SessionStage.TRIED, SessionStage.ASKING),
    (SessionStage.BOUND, SessionStage.WAITING),
)
WAYS = (
    (SessionStage.NEW, Steps.opened, SessionStage.OPENED),
    (SessionStage.OPENED, Steps.opened, SessionStage.OPENED),
    (SessionStage.OPENED, Steps.tried, SessionStage.TRIED),
    (SessionStage.TRIED, Steps.opened, SessionStage.TRIED),
    (SessionStage.TRIED, Steps.logged_in, SessionStage.KNOWN),
    (SessionStage.KNOWN, Steps.opened, SessionStage.KNOWN),
    (SessionStage.KNOWN, Steps.bound, SessionStage.BOUND),
    (SessionStage.BOUND, Steps.opened, SessionStage.BOUND),
    *((before, Steps.asked, after) for before, after in _LOOKUP_STAGES),
    *((after, Steps.answered, before) for before, after in _LOOKUP_STAGES),
    *(
        (stage, Steps.ended, SessionStage.ENDED)
        for stage in SessionStage
        if stage is not SessionStage.ENDED
    ),
)


def _machine() -> TypeMachineBuilder[Steps, Where]:
    builder = TypeMachineBuilder(Steps, Where)
    states = {stage: builder.state(stage.name) for stage in SessionStage}
    for before, step, after in WAYS:

        def go(_: Steps, where: Where, after: SessionStage = after) -> None:
            where.stage = after

        states[before].upon(step).to(states[after])(go)
    return builder


steps_of = _machine().build()
"""``steps_of(where)`` returns the ``Steps`` that change ``where``."""


SECRETS = ("auth", "response", "password", "digest", "token")
TEXTS = ("body", "status", "subject")


def outline(element: Element) -> str:
    """Return the stanza for the log, without secrets; each text is replaced by ``[n chars]``."""
    if element.name in SECRETS:
        inner = "[redacted]"
    elif element.name in TEXTS:
        inner = f"[{len(stanza.content(element))} chars]"
    else:
        inner = stanza.text(stanza.content(element).strip()) + "".join(
            map(outline, element.elements())
        )
    pairs = "".join(
        f' {name if isinstance(name, str) else name[1]}="{stanza.attribute(value)}"'
        for name, value in element.attributes.items()
    )
    return (
        f"<{element.name}{pairs}>{inner}</{element.name}>" if inner else f"<{element.name}{pairs}/>"
    )


def outline_frame(frame: bytes) -> str:
    """Return the log text of a frame that the server sends, as ``outline`` does for a stanza."""
    payload = frame[{126: 4, 127: 10}.get(frame[1], 2) :]
    try:
        return outline(stanza.parse(payload.decode("utf-8")))
    except Unparseable:
        return f"[{len(payload)} bytes]"


log = Logger()

MAX_FRAMES = 4  # before login
MAX_WAITING = 128  # stanzas, while a request to the game is open
LOGIN_S = 15.0
BIND_S = 10.0
SILENCE_S = 50.0
ANSWER_S = 100.0
PROBE_S = 10.0
MAX_REFUSED = 1_000  # room messages over the stanza rate that are answered, per window
MAX_DROPPED = 1_000
WINDOW_S = 60.0
POLITE = ("close", "shutdown", "replaced", "revoked", "lease")  # ended with <close/>
CLOSE_FRAME = element_frame(stanza.CLOSE)
NOTHING: tuple[Effect, ...] = ()


@define(eq=False)
class Session:
    """A chat connection. ``address`` is empty if the client bypasses the gateway.

    ``act`` performs an effect (see ``ChatServer``). ``seconds`` is the clock; ``since`` is the
    clock's time when the connection was made.
    """

    elsewhere: ClassVar[bool] = False
    number: int
    wire: Wire
    address: str
    since: float
    settings: ChatSettings
    seconds: Callable[[], float]
    rates: Rates
    act: Callable[[Session, Effect], None]
    domain: str = field(init=False)
    account: AccountId = ""  # set when the session has logged in
    claim: AccountId = ""  # the account of the valid token, set before the log-in is complete
    names: frozenset[str] = frozenset()  # the account's names at log-in
    resource: str = ""
    jid: str = ""
    why_ended: str = ""  # for the log
    status: PresenceStatus | None = None
    waiting_status: PresenceStatus | None = None
    in_rooms: dict[str, Occupant] = field(factory=dict)
    last_received: float = 0.0
    over_rate: bool = False  # the last stanza exceeded the stanza rate
    refusals_logged: dict[tuple[str, str], float] = field(factory=dict)
    _where: Where = field(factory=Where)
    _steps: Steps = field(init=False)
    _logged_in_at: float = 0.0
    _frames: int = 0  # before login
    _pinged: float | None = None
    _patience: float = ANSWER_S
    _pings: int = 0
    _inbox: list[str] = field(factory=list)  # short; an empty deque takes 600 bytes
    _window: float = 0.0
    _refused: int = 0
    _dropped: int = 0

    def __attrs_post_init__(self) -> None:
        self.domain, self.last_received = self.settings.domain, self.since
        self._steps = steps_of(self._where)

    @property
    def network(self) -> str:
        """Return the network of the client's address; "" for clients that bypass the gateway."""
        return network_of(self.address)

    @property
    def ended(self) -> bool:
        """True if the session has ended; it then receives and sends nothing."""
        return self._where.stage is SessionStage.ENDED

    @property
    def logged_in(self) -> bool:
        """True if the client has logged in, so that the account is known."""
        return self.bound or self._where.stage is SessionStage.KNOWN

    @property
    def bound(self) -> bool:
        """True if the client has bound a resource and can receive stanzas."""
        stage = self._where.stage
        return stage is SessionStage.BOUND or stage is SessionStage.WAITING

    # -- in ----------------------------------------------------------------

    def received(self, data: bytes) -> None:
        """Handle a received message and perform its effects."""
        self.perform(self.receive(data))

    def perform(self, effects: Iterable[Effect]) -> None:
        """Perform each effect before the next one is computed."""
        for effect in effects:
            self.act(self, effect)

    def receive(self, data: bytes) -> Iterable[Effect]:
        """Yield a message's effects; the caller performs each effect before it takes the next."""
        if self.ended:
            return NOTHING
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return (End("refused"),)
        self.last_received, self._pinged = self.seconds(), None
        if not self._must_wait:
            return self._take(text)
        # room for two of the longest stanzas, or for many short ones
        if len(self._inbox) >= MAX_WAITING or sum(map(len, self._inbox)) > stanza.MAX_BYTES:
            return self.drop()
        self._inbox.append(text)
        return NOTHING

    def on_connection_lost(self) -> None:
        self.end("socket")

    @property
    def _must_wait(self) -> bool:
        stage = self._where.stage
        return stage is SessionStage.WAITING or stage is SessionStage.ASKING

    def _take(self, text: str) -> Iterable[Effect]:
        if self.logged_in:
            self.count_stanza()
        over = self.logged_in and self.over_rate
        if over and not text.lstrip().startswith("<message"):
            return self.drop()
        try:
            element = parse(text)
        except Unparseable as why:
            return self._unreadable(why)
        if self.settings.trace:
            log.info("trace c={number} in {outline}", number=self.number, outline=outline(element))
        if over:
            return self._too_much(element)
        return self._after_login(element) if self.logged_in else self._before_login(element)

    def count_stanza(self) -> None:
        """Count a stanza, or a WebSocket ping, towards the session's stanza rate."""
        self.over_rate = not self.rates.stanza(self.number, self.seconds())

    def _unreadable(self, why: Unparseable) -> Iterable[Effect]:
        if self.logged_in:
            return self.drop()
        refused = End("refused")
        return (
            (StanzaReply(stanza.RESTRICTED_XML), refused)
            if isinstance(why, Restricted)
            else (refused,)
        )

    def _too_much(self, element: Element) -> Iterable[Effect]:
        """Refuse a room message that exceeds the stanza rate; the reply is an error stanza.

        After ``MAX_REFUSED`` such replies, the session's messages are dropped.
        """
        self._roll()
        if (
            element.getAttribute("type") == "groupchat"
            and self.bound
            and self._refused < MAX_REFUSED
        ):
            self._refused += 1
            return (TooMuch(element),)
        return self.drop()

    def drop(self) -> Iterable[Effect]:
        """Count a stanza that gets no answer; too many of these end the session."""
        self._roll()
        self._dropped += 1
        return (End("abuse"),) if self._dropped > MAX_DROPPED else NOTHING

    def _roll(self) -> None:
        now = self.seconds()
        if now - self._window >= WINDOW_S:
            self._window, self._dropped, self._refused = now, 0, 0

    # -- before login ------------------------------------------------------

    def _before_login(self, element: Element) -> Iterable[Effect]:
        self._frames += 1
        if self._frames > MAX_FRAMES:
            return (End("refused"),)
        if element.name == "close":
            return (End("close"),)
        if element.name == "open":
            return self._open(element)
        if element.name == "auth" and self._where.stage is SessionStage.OPENED:
            self._steps.tried()
            return (requests.credentials(element),)
        stanza_id = requests.legacy_login(element)
        if stanza_id is None:
            return (End("refused"),)
        return (StanzaReply(stanza.failed(stanza_id, "not-authorized", "auth")), End("refused"))

    def _open(self, element: Element) -> Iterable[Effect]:
        """Answer ``<open>`` with the features.

        Until the client binds a resource, each ``<open>`` sets the session's domain.
        """
        self._steps.opened()
        to = element.getAttribute("to", "")
        if not self.bound:
            self.domain = to if is_domain(to) else self.settings.domain
        features = requests.features(account=self.account)
        return (StanzaReply(requests.opening(self.domain)), StanzaReply(features))

    def refuse(self, why: RefuseLogin) -> None:
        self.write(stanza.element(stanza.SASL, "failure", stanza.element(None, why.condition)))

    def log_in(self, account: AccountId, name: str) -> None:
        self._steps.logged_in()
        self.account, self.names = account, frozenset([name])
        self._logged_in_at = self.seconds()
        self.write(stanza.element(stanza.SASL, "success"))

    # -- after login -------------------------------------------------------

    def _after_login(self, element: Element) -> Iterable[Effect]:
        if element.name == "iq":
            return self._query(element)
        if element.name == "open":
            return self._open(element)
        if element.name == "close":
            return (End("close"),)
        if not self.bound:
            return (End("refused"),) if element.name == "auth" else NOTHING
        effect = requests.request(element)
        return NOTHING if effect is None else (effect,)

    def _query(self, element: Element) -> Iterable[Effect]:
        stanza_id = element.getAttribute("id", "")
        if element.getAttribute("type") not in ("get", "set") or len(stanza_id) > requests.MAX_ID:
            return NOTHING
        bind = child(element, "bind", stanza.BIND)
        if bind is None:
            return (StanzaReply(stanza.result(stanza_id)),)
        resource = stanza.content(child(bind, "resource")) or f"srv-{hex_token(32)}"
        if not self.bound and not is_resource(resource):
            return (StanzaReply(stanza.failed(stanza_id, "bad-request", "modify")),)
        return self._bind(stanza_id, resource)

    def _bind(self, stanza_id: str, resource: str) -> Iterator[Effect]:
        if self.bound:
            yield StanzaReply(self._bind_result(stanza_id))
            return
        yield MakeRoom(resource)
        self._steps.bound()
        self.resource, self.jid = resource, f"{self.account}@{self.domain}/{resource}"
        yield SessionBound(self._bind_result(stanza_id))

    def _bind_result(self, stanza_id: str) -> Element:
        jid = stanza.element(None, "jid", self.jid)
        return stanza.result(stanza_id, stanza.element(stanza.BIND, "bind", jid))

    # -- waiting -----------------------------------------------------------

    def wait(self) -> None:
        """Queue the client's messages until ``resume`` is called."""
        self._steps.asked()

    def resume(self, act: Callable[[], None]) -> None:
        """Run ``act``, then handle the queued messages."""
        if self.ended:
            return
        self._steps.answered()
        act()
        self.perform(self._take_queued())

    def _take_queued(self) -> Iterator[Effect]:
        while self._inbox and not self._must_wait and not self.ended:
            yield from self._take(self._inbox.pop(0))

    # -- out ---------------------------------------------------------------

    def deliver(self, frame: bytes) -> None:
        if not self.ended:
            if self.settings.trace:
                self._trace(frame)
            self.wire.send(frame)

    def deliver_behind(self, frame: bytes) -> None:
        """Send a frame after other sessions' earlier frames have been written."""
        if not self.ended:
            if self.settings.trace:
                self._trace(frame)
            self.wire.send_behind(frame)

    def _trace(self, frame: bytes) -> None:
        text = outline_frame(frame)
        log.info("trace c={number} out {outline}", number=self.number, outline=text)

    def write(self, element: Element) -> None:
        self.deliver(element_frame(element))

    # -- time --------------------------------------------------------------

    def probe(self) -> None:
        """Ping the client, because its account has a newer session.

        The client must answer within ``PROBE_S``.
        """
        self.write(self._ping(self.seconds(), PROBE_S))

    def _ping(self, now: float, patience: float = ANSWER_S) -> Element:
        self._pings += 1
        self._pinged, self._patience = now, patience
        return stanza.element(
            stanza.CLIENT,
            "iq",
            stanza.element(stanza.PING, "ping"),
            type="get",
            id=f"sp{self._pings}",
            from_=self.domain,
            to=self.jid,
        )

    def tick(self, now: float) -> Iterable[Effect]:
        """Return the effects of timeouts; called once a second with the clock's time ``now``."""
        if not self.logged_in:
            return (End("timeout"),) if now - self.since >= LOGIN_S else NOTHING
        if not self.bound:
            return (End("timeout"),) if now - self._logged_in_at >= BIND_S else NOTHING
        if self._pinged is not None:
            late = now - self._pinged >= self._patience
            return (End("ping-timeout"),) if late else NOTHING
        return (StanzaReply(self._ping(now)),) if now - self.last_received >= SILENCE_S else NOTHING

    # -- the end -----------------------------------------------------------

    def end(self, reason: str) -> None:
        """End the session; ``reason`` is for the log. Later calls do nothing."""
        if self.ended:
            return
        if reason == "revoked":
            self.write(stanza.NOT_AUTHORIZED)
        if reason in POLITE:
            self.deliver(CLOSE_FRAME)
        was_bound, self.why_ended = self.bound, reason
        self._steps.ended()
        self._inbox.clear()
        self.act(self, Over(reason, was_bound))
        if reason in POLITE:
            self.wire.end(1000, reason)
        elif reason == "size":
            self.wire.end(1009, "size")
        else:
            self.wire.end(None)
