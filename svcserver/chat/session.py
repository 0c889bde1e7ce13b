"""A connection's session: what it is, what it may do now, and how it ends. No I/O.

Stanzas are worked on strictly in the order they came: while the game is being asked
something for one, the next ones wait. Spec: 2 §4 Chat, §8.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import define, field
from twisted.logger import Logger

from svcserver.chat import acts, login, stanza
from svcserver.chat.frames import text_frame
from svcserver.chat.people import Person
from svcserver.chat.ports import Wire
from svcserver.chat.presence import Status
from svcserver.chat.rooms import Seat
from svcserver.chat.stanza import Restricted, Stanza, Unparseable, parse
from svcserver.chat.trace import outline, outline_frame
from svcserver.kernel.ids import AccountId
from svcserver.kernel.networks import network_of

if TYPE_CHECKING:
    from svcserver.chat.hall import Hall

log = Logger()

MAX_WAITING = 128  # stanzas, while the game is being asked
LOGIN_S = 15.0
BIND_S = 10.0
SILENCE_S = 50.0
ANSWER_S = 100.0
PROBE_S = 10.0
FRESH_S = 1.0  # how old what we know of an account may be when it acts
MAX_REFUSED = 1_000  # room messages over the stanza rate that are answered, per window
MAX_DROPPED = 1_000
WINDOW_S = 60.0
POLITE = ("close", "shutdown", "replaced", "revoked")  # ended with <close/>
OURS = ("shutdown", "revoked", "full")  # nothing that the account did
HELD = ("replaced", "abuse", "size", "backlog")  # ended for cause: the account waits
CLOSE_FRAME = text_frame(stanza.CLOSE)


@define(eq=False)
class Session:
    """One connection. ``address`` is the forwarded one, empty for a direct caller."""

    hall: Hall
    number: int
    wire: Wire
    address: str
    since: float
    domain: str
    person: Person | None = None
    names: frozenset[str] = frozenset()  # at login
    resource: str = ""
    jid: str = ""
    bound: bool = False
    ended: str = ""  # the reason, once it has
    status: Status | None = None
    waiting_status: Status | None = None
    seats: dict[str, Seat] = field(factory=dict)
    progress: login.Progress = field(factory=login.Progress)
    heard: float = 0.0
    logged_in_at: float = 0.0
    refusals_logged: dict[tuple[str, str], float] = field(factory=dict)
    _pinged: float | None = None
    _patience: float = ANSWER_S
    _pings: int = 0
    _inbox: deque[str] = field(factory=deque)
    _busy: bool = False
    _draining: bool = False
    _window: float = 0.0
    _refused: int = 0
    _dropped: int = 0

    @property
    def network(self) -> str:
        """What its address is counted as; all direct callers are one."""
        return network_of(self.address)

    @property
    def account(self) -> AccountId:
        """Whose it is; empty before login."""
        return "" if self.person is None else self.person.account

    # -- in ----------------------------------------------------------------

    def received(self, text: str) -> None:
        """One text message."""
        if self.ended:
            return
        self.heard, self._pinged = self.hall.seconds(), None
        # only while the game is asked; two of the longest, or many short ones
        waiting = sum(map(len, self._inbox))
        if len(self._inbox) >= MAX_WAITING or waiting > stanza.MAX_BYTES:
            self.drop()
            return
        self._inbox.append(text)
        self._drain()

    def lost(self) -> None:
        """The connection is gone."""
        self.end("socket")

    def _drain(self) -> None:
        if self._draining:
            return
        self._draining = True
        try:
            while self._inbox and not self._busy and not self.ended:
                self._handle(self._inbox.popleft())
        finally:
            self._draining = False

    def _handle(self, text: str) -> None:
        logged_in = self.person is not None
        over = logged_in and not self.hall.may(self.hall.stanza_rate, self)
        if over and not text.lstrip().startswith("<message"):
            self.drop()
            return
        try:
            said = parse(text)
        except Unparseable as why:
            if logged_in:
                self.drop()
            else:
                login.unreadable(self, isinstance(why, Restricted))
            return
        if self.hall.settings.trace:
            log.info("trace c={number} in {outline}", number=self.number, outline=outline(said))
        if over:
            self._refuse(said)
        elif logged_in:
            acts.handle(self, said)
        else:
            login.handle(self, said)

    def _refuse(self, said: Stanza) -> None:
        """Over the stanza rate: room messages still get their error, up to a bound."""
        self._roll()
        if said.get("type") == "groupchat" and self.bound and self._refused < MAX_REFUSED:
            self._refused += 1
            acts.not_acceptable(self, said)
        else:
            self.drop()

    def drop(self) -> None:
        """Count a stanza that gets no answer; too many end the session."""
        self._roll()
        self._dropped += 1
        if self._dropped > MAX_DROPPED:
            self.end("abuse")

    def _roll(self) -> None:
        now = self.hall.seconds()
        if now - self._window >= WINDOW_S:
            self._window, self._dropped, self._refused = now, 0, 0

    def freshly(self, act: Callable[[], None], *, anew: bool = False) -> None:
        """Run ``act`` once what we know of the account is at most a second old.

        ``anew`` reads in any case: nobody is refused for what was true a moment ago.
        """
        person = self.person
        young = person is None or self.hall.seconds() - person.read_at < FRESH_S
        if person is None or (young and not anew):
            act()
            return
        self._busy = True
        self.hall.read(person).addCallback(lambda _: self.resume(act))

    def wait(self) -> None:
        """Keep what comes until ``resume``."""
        self._busy = True

    def resume(self, act: Callable[[], None]) -> None:
        """Go on with ``act``, then with what came meanwhile."""
        self._busy = False
        if not self.ended:
            act()
            self._drain()

    # -- out ---------------------------------------------------------------

    def deliver(self, frame: bytes) -> None:
        """Send a finished frame."""
        if not self.ended:
            if self.hall.settings.trace:
                said = outline_frame(frame)
                log.info("trace c={number} out {outline}", number=self.number, outline=said)
            self.wire.send(frame)

    def write(self, said: str) -> None:
        """Send one stanza."""
        self.deliver(text_frame(said))

    def ping(self, now: float, patience: float = ANSWER_S) -> None:
        """Ask for a sign of life within ``patience`` seconds."""
        self._pings += 1
        self._pinged, self._patience = now, patience
        self.write(
            stanza.element(
                "iq",
                stanza.element("ping", xmlns=stanza.PING),
                xmlns=stanza.CLIENT,
                type="get",
                id=f"sp{self._pings}",
                from_=self.domain,
                to=self.jid,
            )
        )

    def probe(self) -> None:
        """Another session of the account has come: is this one still there?"""
        self.ping(self.hall.seconds(), PROBE_S)

    def tick(self, now: float) -> None:
        """Once a second: what is overdue."""
        if self.person is None:
            if now - self.since >= LOGIN_S:
                self.end("timeout")
        elif not self.bound:
            if now - self.logged_in_at >= BIND_S:
                self.end("timeout")
        elif self._pinged is not None:
            if now - self._pinged >= self._patience:
                self.end("ping-timeout")
        elif now - self.heard >= SILENCE_S:
            self.ping(now)
        if self.waiting_status is not None and not self.ended:
            acts.announce(self, self.waiting_status)

    # -- the end -----------------------------------------------------------

    def end(self, reason: str) -> None:
        """End it for ``reason``, a word of the log. Later calls do nothing."""
        if self.ended:
            return
        if reason == "revoked":
            self.write(stanza.NOT_AUTHORIZED)
        if reason in POLITE:
            self.deliver(CLOSE_FRAME)
        self.ended = reason
        self._inbox.clear()
        self._leave_everything("disconnect" if reason != "replaced" else "replaced")
        now = self.hall.seconds()
        self._hold(reason, now)
        log.info(
            "closed c={number} uid={uid} reason={reason} after={after}s",
            number=self.number,
            uid=self.account,
            reason=reason,
            after=int(now - self.since),
        )
        self.hall.forget(self)
        if reason in POLITE:
            self.wire.end(1000, reason)
        elif reason == "size":
            self.wire.end(1009, "size")
        else:
            self.wire.end(None)

    def _leave_everything(self, why: str) -> None:
        for seat in list(self.seats.values()):
            acts.leave_room(self, seat, why, tell_leaver=False)
        if self.bound and self.ended != "shutdown":
            self.hall.presences.withdraw(self)

    def _hold(self, reason: str, now: float) -> None:
        lockout = self.hall.lockout
        if reason == "size":
            lockout.failed(self.account, self.address, now)
        if self.person is None or reason in OURS:
            return
        if not self.bound:
            lockout.never_bound(self.account, now)
        elif reason in HELD:
            lockout.hold(self.account, now)
