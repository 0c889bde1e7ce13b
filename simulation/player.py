"""A player: the state that the player's actions use, and the requests to the host."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from simulation.chat_client import Chat
from simulation.client import Client
from simulation.gameservers import GameServer, Servers
from simulation.history import History
from simulation.process import Process
from svcserver.kernel.headers import GAME_SERVER_KEY
from svcserver.players.http import NoAnswer, Reply

log = Logger()

CURRENCY = "CURRENCY_NOTES"
SEASON = "season09b_progression"
POLL_S = 5.0
WITHOUT_TOKEN = ("/svc/api/Register", "/account/api/oauth/token")  # sent before signing in
KEY_HEADER = GAME_SERVER_KEY.decode()
Act = Callable[["SimPlayer", random.Random], Awaitable[None]]


class Stopped(Exception):
    """Raised when the player has logged off during an action."""


@define(eq=False)
class SimPlayer:
    """A player, the process on the player's PC, and what the player knows about the host."""

    number: int
    name: str
    invite: str
    switch_on: Callable[[], Process]  # the PC
    history: History
    servers: Servers
    everybody: list[SimPlayer]
    city: str
    direct: Client  # the game servers' client to the metagame
    key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    account: str = ""
    character: str = ""
    version: int = 0
    party: str = ""
    moves: int = 0  # started changes of party
    moving: int = 0  # pending ones
    astray_at: float = -1e9  # when one of them got no reply
    guild: str = ""
    issued: float = -1e9  # when the token was requested
    shut_out_at: float = -1e9  # when the owner last ended this player's sessions
    place: GameServer | None = None  # where the player was sent; it may have ended
    where: str = "away"
    chat: Chat | None = None
    busy: int = 0
    sitting: int = 0  # counts log-ins; acts of an earlier one are over
    transactions: int = 0
    under_way: int = 0  # inventory transactions
    items: dict[str, int] = field(factory=dict)  # by id: the newest version sent
    offers: list[str] = field(factory=list)  # store offers that the player uses
    documents: int = 0  # of loadout slots, and boards of bounties
    unlocks: int = 0  # of loadout slots
    unlocking: int = 0  # pending ones
    acts: int = 0
    registering: bool = False
    tries: int = 0  # of names
    refusals: dict[int, int] = field(factory=dict)
    process: Process = field(init=False)
    web: Client = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.process = self.switch_on()
        self.web = Client(self.process)

    # -- asking ------------------------------------------------------------------

    async def make_request(
        self,
        method: str,
        path: str,
        sent: Any = None,
        *,
        patient: bool = False,
        may: Callable[[int], bool] = lambda status: False,
        **more: Any,
    ) -> Reply:
        """Send a request; if ``patient``, repeat the request on failure, as the game does.

        ``may`` returns whether a status is a correct reply to this request although ``answers.py``
        does not allow it.
        """
        tries = 4 if patient else 1
        while True:
            tries -= 1
            if self.process.dead:  # the PC is off
                raise Stopped
            began, sitting, issued = self.now, self.sitting, self.issued
            bears = "Authorization" in {**self.web.headers, **more.get("headers", {})}
            try:
                reply = await self.web.request_once(method, path, sent, **more)
            except NoAnswer:
                if not (more.get("lose") or self.process.dead or sitting != self.sitting):
                    self.history.answers.unanswered(self.name, f"{method} {path}", began)
                if not tries:
                    raise
                await self.pause(2.0)
                continue
            self.history.answers.took(self.name, f"{method} {path}", began, self.now)
            out = reply.status == 401 and self._is_out(path, issued, bears=bears)
            right = out or may(reply.status)
            self._judge(reply.status, method, path, began, right=right)
            if reply.status in (502, 503, 504, 429) and tries:
                await self.pause(3.0)
                continue
            self.refusals[reply.status] = self.refusals.get(reply.status, 0) + 1
            return reply

    def _judge(self, status: int, method: str, path: str, began: float, *, right: bool) -> None:
        """Report a wrong reply; ``right`` is True if the caller knows that the reply is correct."""
        if status == 500:
            self.history.wrong.add("no failure of ours", f"{method} {path} answered 500")
        if not right:
            self.history.answers.check_status(self.name, method, path, status, began)

    def _is_out(self, path: str, issued: float, *, bears: bool) -> bool:
        """Return whether a request to this path was sent without a token of a valid session.

        ``bears`` is True if the request had a token, which was issued at ``issued``.
        """
        return path not in WITHOUT_TOKEN and (not bears or self.is_over(issued))

    def is_over(self, issued: float) -> bool:
        """Return whether the owner has possibly ended the session of a token.

        The token was issued at ``issued``.
        """
        return issued <= self.shut_out_at + 2.0  # for rounding, and for the latency of a reply

    async def ask_by_server(
        self, server: GameServer, method: str, path: str, sent: Any = None
    ) -> Reply:
        """Send a request as this game server, with the server's key and this player's token."""
        began, issued, who = self.now, self.issued, f"a game server for {self.name}"
        headers = {KEY_HEADER: server.line.key, **self.bearer()}
        try:
            reply = await self.direct.request_once(method, path, sent, headers=headers)
        except NoAnswer:
            self.history.answers.unanswered(who, f"{method} {path}", began)
            raise
        self.history.answers.took(who, f"{method} {path}", began, self.now)
        # by the specification, the reply to a revoked token is 500 here
        if reply.status not in (401, 500) or not self.is_over(issued):
            self.history.answers.check_status(who, method, path, reply.status, began)
        return reply

    @property
    def now(self) -> float:
        return self.process.seconds()

    async def pause(self, seconds: float) -> None:
        """Wait; raises Stopped if the player has logged off in the meantime."""
        sitting = self.sitting
        waited: Deferred[None] = Deferred()
        self.process.world.later(seconds, lambda: waited.callback(None))
        await waited
        if sitting != self.sitting:
            raise Stopped

    def begin(self, what: str, dice: random.Random) -> None:
        """Start an action, unless three actions of the player are already pending."""
        if self.busy < 3:
            Deferred.fromCoroutine(self.run_action(what, dice))

    def begin_all(self, acts: Sequence[str], dice: random.Random) -> None:
        """Run the actions one after another, even if other actions are pending."""

        async def each() -> None:
            for what in acts:
                await self.run_action(what, dice)

        Deferred.fromCoroutine(each())

    async def run_action(self, what: str, dice: random.Random) -> None:
        """Run an action; an exception in the action is logged, which counts as a violation.

        An action that gets no reply, or that ends because the player logs off, is no violation.
        """
        self.acts += 1
        self.busy += 1
        try:
            if what in ("quit", "log_in"):
                await ACTS[what](self, dice)
            else:
                if not self.token:
                    await ACTS["log_in"](self, dice)
                if self.token:
                    await ACTS[what](self, dice)
        except (NoAnswer, Stopped):
            return
        except Exception:
            log.failure("the simulated player {name} failed at {what}", name=self.name, what=what)
        finally:
            self.busy -= 1

    async def move(self, method: str, path: str, sent: Any = None, **more: Any) -> Reply:
        """Send a request that moves the player to another party."""
        self.moves += 1
        self.moving += 1
        try:
            return await self.make_request(method, path, sent, **more)
        except NoAnswer:
            self.astray_at = self.now
            raise
        finally:
            self.moving -= 1

    def ping_game_server(self, *, goodbye: bool = False) -> bool:
        """Send a datagram to the player's game server; return whether it was answered."""
        if self.place is None:
            return False
        return self.place.hear(self.process.address, self.account, goodbye=goodbye)

    def choose_peer(self, dice: random.Random) -> SimPlayer | None:
        """Return another player with an account, or None if there is no such player."""
        known = [player for player in self.everybody if player is not self and player.account]
        return dice.choice(known) if known else None

    def switched_off(self) -> None:
        """Forget the session of a PC that was switched off; pending actions then stop."""
        self.sitting += 1
        self.token, self.where, self.place, self.party = "", "away", None, ""
        if self.chat is not None:
            self.chat.ended()
            self.chat = None
        self.web.close()

    def unheard(self) -> None:
        """Record that the connection broke: chat lines that are lost now are no violations."""
        if self.chat is not None:
            for room in self.history.chat.rooms:
                self.history.chat.left(room, f"{self.name}/{self.chat.resource[-6:]}", self.now)

    def bearer(self) -> dict[str, str]:
        """Return the headers that a game server sends for this player."""
        return {"Authorization": f"Bearer {self.token}"}


async def together(me: SimPlayer, works: list[Any]) -> None:
    """Run ``works`` concurrently, wait until all have ended, and raise the first exception."""
    running = [Deferred.fromCoroutine(work) for work in works]
    failed: Exception | None = None
    for work in running:
        try:
            await work
        except (NoAnswer, Stopped) as why:
            failed = failed or why
    if failed is not None:
        raise failed


ACTS: dict[str, Act] = {}  # filled by ``players.py``
