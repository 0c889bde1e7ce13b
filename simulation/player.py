"""A player: the state machine that acts run on, and how it asks the host."""

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
WITHOUT_TOKEN = ("/svc/api/Register", "/account/api/oauth/token")  # nobody is signed in before
KEY_HEADER = GAME_SERVER_KEY.decode()
Act = Callable[["SimPlayer", random.Random], Awaitable[None]]


class Stopped(Exception):
    """The player has logged off in the middle of what they did."""


@define(eq=False)
class SimPlayer:
    """A player, the process on their PC, and what they believe; acts ask the host through it."""

    number: int
    name: str
    invite: str
    switch_on: Callable[[], Process]  # the PC
    history: History
    servers: Servers
    everybody: list[SimPlayer]
    city: str
    direct: Client  # as game servers ask the metagame
    key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    account: str = ""
    character: str = ""
    version: int = 0
    party: str = ""
    moves: int = 0  # from one party to another: those begun
    moving: int = 0  # those under way
    astray_at: float = -1e9  # when one of them got no answer
    guild: str = ""
    issued: float = -1e9  # when the token was asked for
    shut_out_at: float = -1e9  # when the owner last ended this player's sessions
    place: GameServer | None = None  # where the player was sent; it may have ended
    where: str = "away"
    chat: Chat | None = None
    busy: int = 0
    sitting: int = 0  # counts log-ins: what belongs to an earlier one is over
    transactions: int = 0
    under_way: int = 0  # inventory transactions
    items: dict[str, int] = field(factory=dict)  # by id: the newest version that was sent
    offers: list[str] = field(factory=list)  # of the store, those that the player cares for
    documents: int = 0  # of loadout slots, and boards of bounties
    unlocks: int = 0  # of loadout slots
    unlocking: int = 0  # those under way
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

    async def ask(
        self,
        method: str,
        path: str,
        sent: Any = None,
        *,
        patient: bool = False,
        may: Callable[[int], bool] = lambda status: False,
        **more: Any,
    ) -> Reply:
        """One request; ``patient``: asked again until it is answered, as the game does.

        ``may``: whether by all that is known a right host may answer with this status, besides
        what ``answers.py`` lists.
        """
        tries = 4 if patient else 1
        while True:
            tries -= 1
            if self.process.dead:  # the PC is off
                raise Stopped
            began, sitting, issued = self.now, self.sitting, self.issued
            bears = "Authorization" in {**self.web.headers, **more.get("headers", {})}
            try:
                heard = await self.web.ask(method, path, sent, **more)
            except NoAnswer:
                if not (more.get("lose") or self.process.dead or sitting != self.sitting):
                    self.history.answers.given_up(self.name, f"{method} {path}", began)
                if not tries:
                    raise
                await self.pause(2.0)
                continue
            self.history.answers.took(self.name, f"{method} {path}", began, self.now)
            out = heard.status == 401 and self._is_out(path, issued, bears=bears)
            right = out or may(heard.status)
            self._judge(heard.status, method, path, began, right=right)
            if heard.status in (502, 503, 504, 429) and tries:
                await self.pause(3.0)
                continue
            self.refusals[heard.status] = self.refusals.get(heard.status, 0) + 1
            return heard

    def _judge(self, status: int, method: str, path: str, began: float, *, right: bool) -> None:
        """Note an answer, and whether it is one of ours that must not be; ``right``: it may be."""
        if status == 500:
            self.history.wrong.add("no failure of ours", f"{method} {path} answered 500")
        if not right:
            self.history.answers.heard(self.name, method, path, status, began)

    def _is_out(self, path: str, issued: float, *, bears: bool) -> bool:
        """Whether nobody is signed in: the token is over, or not there after the PC was off."""
        return path not in WITHOUT_TOKEN and (not bears or self.is_over(issued))

    def is_over(self, issued: float) -> bool:
        """Whether the owner may have ended a session whose token was issued then."""
        return issued <= self.shut_out_at + 2.0  # whole seconds, and the way of an answer

    async def ask_by_server(
        self, server: GameServer, method: str, path: str, sent: Any = None
    ) -> Reply:
        """One request of a game server for this player, with its key and the player's token."""
        began, issued, who = self.now, self.issued, f"a game server for {self.name}"
        headers = {KEY_HEADER: server.line.key, **self.bearer()}
        try:
            heard = await self.direct.ask(method, path, sent, headers=headers)
        except NoAnswer:
            self.history.answers.given_up(who, f"{method} {path}", began)
            raise
        self.history.answers.took(who, f"{method} {path}", began, self.now)
        # a token that was ended is answered 500 here, by the rules
        if heard.status not in (401, 500) or not self.is_over(issued):
            self.history.answers.heard(who, method, path, heard.status, began)
        return heard

    @property
    def now(self) -> float:
        """The simulation's time, in epoch seconds."""
        return self.process.seconds()

    async def pause(self, seconds: float) -> None:
        """Wait; ends the act when the player has logged off meanwhile."""
        sitting = self.sitting
        waited: Deferred[None] = Deferred()
        self.process.world.later(seconds, lambda: waited.callback(None))
        await waited
        if sitting != self.sitting:
            raise Stopped

    def begin(self, what: str, dice: random.Random) -> None:
        """Do it, unless much else is under way."""
        if self.busy < 3:
            Deferred.fromCoroutine(self.act(what, dice))

    def begin_all(self, acts: Sequence[str], dice: random.Random) -> None:
        """Do all of these, one after the other, whatever else is under way."""

        async def each() -> None:
            for what in acts:
                await self.act(what, dice)

        Deferred.fromCoroutine(each())

    async def act(self, what: str, dice: random.Random) -> None:
        """Do it; whatever goes wrong on the way is the host's fault only where a rule says so."""
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
        """A request that takes the player from one party to another."""
        self.moves += 1
        self.moving += 1
        try:
            return await self.ask(method, path, sent, **more)
        except NoAnswer:
            self.astray_at = self.now
            raise
        finally:
            self.moving -= 1

    def say(self, *, goodbye: bool = False) -> bool:
        """A datagram to the game server that the player is on; whether it was answered."""
        if self.place is None:
            return False
        return self.place.hear(self.process.address, self.account, goodbye=goodbye)

    def other(self, dice: random.Random) -> SimPlayer | None:
        """Another player who has an account; None while there is none."""
        known = [one for one in self.everybody if one is not self and one.account]
        return dice.choice(known) if known else None

    def switched_off(self) -> None:
        """The game ends in the middle of whatever it does."""
        self.sitting += 1
        self.token, self.where, self.place, self.party = "", "away", None, ""
        if self.chat is not None:
            self.chat.ended()
            self.chat = None
        self.web.close()

    def unheard(self) -> None:
        """The line has failed: what is not heard from now on is nobody's fault."""
        if self.chat is not None:
            for room in self.history.chat.rooms:
                self.history.chat.left(room, f"{self.name}/{self.chat.resource[-6:]}", self.now)

    def bearer(self) -> dict[str, str]:
        """What a game server sends for this player."""
        return {"Authorization": f"Bearer {self.token}"}


async def together(me: SimPlayer, works: list[Any]) -> None:
    """All at the same instant; ends when the last has, and raises what the first raised."""
    running = [Deferred.fromCoroutine(one) for one in works]
    failed: Exception | None = None
    for one in running:
        try:
            await one
        except (NoAnswer, Stopped) as why:
            failed = failed or why
    if failed is not None:
        raise failed


ACTS: dict[str, Act] = {}  # ``players.py`` fills it
