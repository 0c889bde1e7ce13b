"""A run: a host and its players from one seed, then quiet, then the audit."""

from __future__ import annotations

import gc
import hashlib
import random
import sqlite3
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from math import inf
from typing import Any

from attrs import define, field, frozen
from sqlalchemy.exc import DBAPIError
from twisted.internet.defer import Deferred
from twisted.logger import LogLevel, formatEvent, globalLogPublisher

from simulation.audit import Audit, rooms_told_apart
from simulation.client import Client
from simulation.clock import START, World
from simulation.faults import Breaker
from simulation.history import History
from simulation.host import CITY_MAP, METAGAME, SimHost, player_machine
from simulation.ledger import judge
from simulation.network import Network
from simulation.outcomes import Violation
from simulation.player import SimPlayer
from simulation.process import Process
from simulation.rare import APART_S, LIVE_STATE, RareThings, traces_s
from simulation.script import HOST, Script, Step, shared
from simulation.social import party_of
from svcserver.kernel.buggify import rare_things
from svcserver.kernel.system import owned
from svcserver.players.requests import NAMES

TURN_S = 60.0  # simulated seconds between two looks from outside
QUIET_S = 120.0  # what is under way ends
# what all do when everything that was broken is mended and has settled; who is away logs in for it
ONCE_MORE = ("heartbeat", "save", "earn", "look", "speak")
AWAY_S = 900.0  # everything that outlasts a player ends
FOLD_S = 7200.0  # between two times that what is long over is judged and forgotten
MOST_MOMENTS = 3000  # of the timeline
Turn = Callable[[float], bool]  # whether the run shall end now
_STAMP = struct.Struct("<dQQ").pack  # when, over which end, how many bytes


@frozen
class Wish:
    """What to simulate. ``steps``, read from ``steps_file``, replace those of the seed."""

    seed: int
    players: int = 20
    seconds: float = 3600.0
    faults: bool = False
    steps: Sequence[Step] | None = None
    pace_s: float = 35.0
    steps_file: str = ""

    def script(self) -> Script:
        """The steps: those that were given, else those of the seed."""
        if self.steps is not None:
            return Script.of_steps(self.steps)
        return Script.of_seed(
            self.seed, self.players, self.seconds, faults=self.faults, pace_s=self.pace_s
        )


@frozen
class Moment:
    """A point of the timeline: who was where, and what happened."""

    at: float
    where: tuple[str, ...]
    events: tuple[str, ...]


EVENTS = 8  # of a moment that stands for two


def thinned(moments: list[Moment]) -> list[Moment]:
    """Half as many: each stands for two, with the first of their events."""
    found = []
    for at in range(0, len(moments), 2):
        events = tuple(event for one in moments[at : at + 2] for event in one.events)
        found.append(Moment(moments[at].at, moments[at].where, events[:EVENTS]))
    return found


@define
class Result:
    """What a run gave: its hash, what was violated, and its timeline."""

    wish: Wish
    hash: str
    violations: list[Violation]
    steps: int
    requests: int
    lines: int
    hunts: int
    deaths: int
    simulated_s: float
    cpu_s: float
    statuses: dict[int, int]
    moments: list[Moment]
    rare: dict[str, int]
    stopped: bool = False  # early, with all that was done until then judged

    @property
    def speed(self) -> float:
        """Simulated seconds per second of processor."""
        return self.simulated_s / max(self.cpu_s, 1e-9)


@define(eq=False)
class Run:
    """One run; ``turn`` is told how much of it is done, and says whether it shall end early."""

    wish: Wish
    turn: Turn = lambda part: False
    world: World = field(init=False)
    network: Network = field(init=False)
    history: History = field(factory=History)
    host: SimHost = field(init=False)
    players: list[SimPlayer] = field(factory=list)
    game_servers: Process = field(init=False)  # who asks the metagame for them
    moments: list[Moment] = field(factory=list)
    rare: RareThings = field(init=False)
    stopped: bool = False  # before its end, because ``turn`` said so
    _begun: int = field(default=0, init=False)  # steps
    _events: list[str] = field(factory=list)
    _folds_at: float = field(factory=lambda: START + FOLD_S, init=False)
    _digest: Any = field(factory=hashlib.sha256)

    def run(self) -> Result:
        """Simulate from the start to the audit of what is left."""
        began = time.process_time()
        self.world = World(self.wish.seed)
        self.history.wrong.seconds = lambda: self.world.now - START
        with ExitStack() as stack:
            stack.enter_context(owned(self.world.system()))
            self.rare = RareThings(self.world, self._happened)
            if self.wish.faults:
                stack.enter_context(rare_things(self.rare.happens))
            heard: Any = self._logged
            globalLogPublisher.addObserver(heard)
            stack.callback(globalLogPublisher.removeObserver, heard)
            self._build()
            steps = self._act()
            self._settle()
        return self._result(steps, time.process_time() - began)

    # -- what the world is told ----------------------------------------------------

    def _sent(self, number: int, process: str, data: bytes) -> None:
        self._digest.update(_STAMP(self.world.now, number, len(data)))
        self._digest.update(data)

    def _logged(self, event: dict[str, Any]) -> None:
        if self.world.burying:
            return
        if event.get("log_level") is LogLevel.critical and "log_failure" in event:
            why = event["log_failure"]
            text = f"{formatEvent(event)}: {why.type.__name__}: {why.getErrorMessage()}"
            self.history.wrong.add("no failure of ours", text[:300])

    def _happened(self, name: str) -> None:
        """A rare thing happens."""
        traces = traces_s(name)
        if traces is not None:
            self.history.answers.trouble(self.world.now + traces, settles_s=0.0)
        if name.startswith(LIVE_STATE):
            self.history.parties.shake(self.world.now)
            self.history.chat.gap(self.world.now, self.world.now + APART_S)

    # -- parts -----------------------------------------------------------------------

    def _build(self) -> None:
        self.network = Network(self.world, self._sent)
        kind = self.wish.seed % 4
        self.host = SimHost(
            self.world, self.network, rehearsed=kind == 3, shared=shared(self.wish.seed)
        )
        self.history.calm = not self.wish.faults and not any(
            one.who == HOST for one in self.wish.steps or ()
        )
        for number in range(0, self.wish.players, 4):
            self.host.disk.raw.execute(
                "INSERT INTO invite_codes VALUES (?, ?, 0)", (f"CODE-{number // 4}", 8)
            )
        self.game_servers = Process(self.world, self.network, "game servers")
        self.host.start()
        self.world.run_until(START + 5.0)
        for number in range(self.wish.players):
            switch_on = partial(player_machine, self.world, self.network, number)
            name = f"{NAMES[number % len(NAMES)]}_{number}"
            direct = Client(self.game_servers, port=METAGAME)
            player = SimPlayer(
                number,
                name,
                f"CODE-{number // 4}",
                switch_on,
                self.history,
                self.host.servers,
                self.players,
                CITY_MAP,
                direct,
            )
            self.players.append(player)

    def _act(self) -> int:
        breaker = Breaker(
            self.world, self.network, self.host, self.players, mark=self._events.append
        )
        breaker.missing = self.history.chat.gap
        breaker.troubled = trouble = self.history.answers.trouble
        breaker.begins = lambda who: trouble(self.world.now, who, settles_s=0.0)
        breaker.shaken = lambda: self.history.parties.shake(self.world.now)
        script, start = self.wish.script(), self.world.now
        steps = self._agenda(script, breaker)
        turns = int(self.wish.seconds / TURN_S) + 1
        for number in range(turns):
            until = start + min(self.wish.seconds, (number + 1) * TURN_S)
            steps(until if number + 1 < turns else inf)
            self._advance(until)
            if self.turn((number + 1) / turns) and number + 1 < turns:
                self.stopped = True
                break
        self.rare.over = True
        while self.world.now < breaker.until + 5.0:
            self._advance(self.world.now + 5.0)
        return self._begun

    def _agenda(self, script: Script, breaker: Breaker) -> Callable[[float], None]:
        """What puts the steps until some time into the world's queue, where no later ones are."""
        start, first = self.world.now, self.world.reserve(script.count)
        steps = enumerate(script.steps, first)
        ahead = next(steps, None)

        def until(end: float) -> None:
            nonlocal ahead
            while ahead is not None:
                number, step = ahead
                at = start + max(0.0, step.at)
                if at > end:
                    return
                self._begun += 1
                if step.who < len(self.players):
                    self.world.at_place(at, number, partial(self._step, step, breaker))
                ahead = next(steps, None)

        return until

    def _step(self, step: Step, breaker: Breaker) -> None:
        dice = random.Random(step.dice)  # noqa: S311
        if step.who == HOST:
            breaker.do(step.what, dice)
            return
        self.players[step.who].begin(step.what, dice)

    def _advance(self, until: float) -> None:
        self.world.run_until(until)
        self.history.waiting.look(self.world.now)
        self.history.chat.look(self.world.now, self.history.answers.untroubled)
        self.history.chat.look_at_whispers(self.world.now, self.history.answers.untroubled)
        events, self._events[:] = tuple(self._events), []
        where = tuple(one.where for one in self.players)
        self.moments.append(Moment(self.world.now - START, where, events))
        if len(self.moments) > MOST_MOMENTS:
            self.moments[:] = thinned(self.moments)
        if self.world.now >= self._folds_at:
            self._folds_at = self.world.now + FOLD_S
            self._fold()

    def _fold(self) -> None:
        """Let go of what is over and judged; no byte of the run depends on it."""
        self.host.servers.forget()
        for player in self.players:
            player.web.forget()
            player.direct.forget()
        self.world.bury()
        self.history.chat.forget(self.world.now - FOLD_S / 2, self.world.now)

    def _settle(self) -> None:
        """Let everything end, ask everybody what they are shown, then send all home."""
        self._rest(QUIET_S)
        for player in self.players:
            if player.key:
                dice = random.Random(f"once more {self.wish.seed} {player.number}")  # noqa: S311
                once_more = partial(player.begin_all, ONCE_MORE, dice)
                self.world.later(dice.uniform(0.0, 10.0), once_more)
        self._rest(QUIET_S / 2)
        for player in self.players:
            if player.key and not player.token:
                self.history.wrong.add("all goes on", f"{player.name} cannot log in any more")
        self.history.chat.settle(self.world.now)
        self._compare()
        for player in self.players:
            Deferred.fromCoroutine(player.act("quit", random.Random(0)))  # noqa: S311
        self._advance(self.world.now + 1.0)  # the timeline shows that they have gone
        self._advance(self.world.now + AWAY_S)
        self._advance(self.world.now + 1.0)
        uses = {f"CODE-{number // 4}": 8 for number in range(0, self.wish.players, 4)}
        Audit(self.host, self.history, self.players, uses).run()

    def _compare(self) -> None:
        """What the metagames know of the rooms, and what everybody is shown of the parties."""
        if rooms_told_apart(self.host):
            self._advance(self.world.now + 20.0)  # somebody may just have left
            told = rooms_told_apart(self.host)
            if told:
                self.history.wrong.add("live state agrees", told)
        shown: dict[str, tuple[str, tuple[str, ...], str]] = {}
        for _ in range(2):  # first all are heard of again: who polls early may drop a silent one
            shown.clear()
            for player in self.players:
                if player.token:
                    asked = Deferred.fromCoroutine(self._ask_party(player, shown))
                    asked.addErrback(lambda _: None)
            self._advance(self.world.now + 60.0)
        self.history.parties.compared(shown)

    def _rest(self, seconds: float) -> None:
        """Let so much time pass, and more while somebody is still at something."""
        least = int(seconds / 20)
        for number in range(least + 10):
            if number > least and not any(one.busy for one in self.players):
                break
            self._advance(self.world.now + 20.0)

    @staticmethod
    async def _ask_party(player: SimPlayer, shown: dict[str, Any]) -> None:
        seen = await party_of(player)
        if seen is not None:
            members = tuple(str(one) for one in seen["playerIds"])
            shown[player.account] = str(seen["partyId"]), members, str(seen["leaderPlayerId"])

    def _result(self, steps: int, cpu_s: float) -> Result:
        disk = self.host.disk
        self._digest.update(disk.digest.digest())
        for line in disk.lines():
            if line.startswith("INSERT"):  # SQLAlchemy creates a table's indexes in any order
                self._digest.update(line.encode("utf-8", "surrogatepass"))
        statuses: dict[int, int] = {}
        for player in self.players:
            for status, count in player.refusals.items():
                statuses[status] = statuses.get(status, 0) + count
        return Result(
            self.wish,
            self._digest.hexdigest(),
            list(self.history.wrong.found),
            steps,
            sum(one.web.asked for one in self.players),
            self.history.chat.count,
            self.host.servers.hunts,
            self.host.deaths,
            self.world.now - START,
            cpu_s,
            dict(sorted(statuses.items())),
            self.moments,
            dict(sorted(self.rare.counts.items())),
            self.stopped,
        )


def simulate(wish: Wish, turn: Turn = lambda part: False) -> Result:
    """Run what is wished; ``turn`` is told the part that is done, 0 to 1, and may end it.

    Raises NoScratch where this machine has no room for the database.
    """
    with owned(World(wish.seed).system()):
        try:
            result = Run(wish, turn).run()
        except (sqlite3.Error, DBAPIError) as why:  # of what reads past the services
            judge(why)
            raise
        gc.collect()  # what dead processes were doing ends now, and in no other world than such
    return result
