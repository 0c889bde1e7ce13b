"""A run: a host and its players from one seed, then a quiet period, then the audit."""

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

from simulation.audit import Audit, room_differences
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

TURN_S = 60.0  # simulated seconds between two checks
QUIET_S = 120.0  # pending acts end
# what all players do once every fault is mended; absent players log in first
ONCE_MORE = ("heartbeat", "save", "earn", "look", "speak")
AWAY_S = 900.0  # everything that outlives a player's session ends
FOLD_S = 7200.0  # how often old history is checked and forgotten
MOST_MOMENTS = 3000  # of the timeline
Turn = Callable[[float], bool]  # returns whether to end the run now
_STAMP = struct.Struct("<dQQ").pack  # time, number of the end, number of bytes


@frozen
class Scenario:
    """The parameters of a run.

    If ``steps`` are given, they replace the steps that the seed determines. ``steps_file`` is the
    file from which they were read.
    """

    seed: int
    players: int = 20
    seconds: float = 3600.0
    faults: bool = False
    steps: Sequence[Step] | None = None
    pace_s: float = 35.0
    steps_file: str = ""
    swarm: bool = False  # game servers run on the machines of a Docker Swarm

    def script(self) -> Script:
        """Return the given steps, or else the seed's steps."""
        if self.steps is not None:
            return Script.of_steps(self.steps)
        return Script.of_seed(
            self.seed,
            self.players,
            self.seconds,
            faults=self.faults,
            pace_s=self.pace_s,
            swarm=self.swarm,
        )


@frozen
class Moment:
    """A point of the timeline: the players' places and the events."""

    at: float
    where: tuple[str, ...]
    events: tuple[str, ...]


EXCUSED_S = 30.0  # until the swarm has ended a game server
EVENTS = 8  # of a merged moment


def thinned(moments: list[Moment]) -> list[Moment]:
    """Merge each pair of moments into one moment with at most ``EVENTS`` of the pair's events."""
    half = []
    for at in range(0, len(moments), 2):
        events = tuple(event for moment in moments[at : at + 2] for event in moment.events)
        half.append(Moment(moments[at].at, moments[at].where, events[:EVENTS]))
    return half


@define
class Result:
    """The result of a run: its hash, its violations and its timeline."""

    scenario: Scenario
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
    stopped: bool = False  # early; everything until then was checked

    @property
    def speed(self) -> float:
        """Return simulated seconds per second of CPU."""
        return self.simulated_s / max(self.cpu_s, 1e-9)


@define(eq=False)
class Run:
    """One run of a scenario.

    ``turn`` is called with the completed fraction, and returns whether to end the run early.
    """

    scenario: Scenario
    turn: Turn = lambda part: False
    world: World = field(init=False)
    network: Network = field(init=False)
    history: History = field(factory=History)
    host: SimHost = field(init=False)
    players: list[SimPlayer] = field(factory=list)
    game_servers: Process = field(init=False)  # the process that sends their requests
    moments: list[Moment] = field(factory=list)
    rare: RareThings = field(init=False)
    stopped: bool = False  # before its end, because ``turn`` said so
    _begun: int = field(default=0, init=False)  # steps
    _events: list[str] = field(factory=list)
    _folds_at: float = field(factory=lambda: START + FOLD_S, init=False)
    _digest: Any = field(factory=hashlib.sha256)

    def run(self) -> Result:
        """Simulate from the start to the final audit."""
        began = time.process_time()
        self.world = World(self.scenario.seed)
        self.history.wrong.seconds = lambda: self.world.now - START
        with ExitStack() as stack:
            stack.enter_context(owned(self.world.system()))
            self.rare = RareThings(self.world, self._happened)
            if self.scenario.faults:
                stack.enter_context(rare_things(self.rare.happens))
            observer: Any = self._logged
            globalLogPublisher.addObserver(observer)
            stack.callback(globalLogPublisher.removeObserver, observer)
            self._build()
            steps = self._run_actions()
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
        """Record a rare event."""
        traces = traces_s(name)
        if traces is not None:
            self.history.answers.trouble(self.world.now + traces, settles_s=0.0)
        if self.host.swarm is not None and name.startswith("deploy: a game server ends"):
            self.host.swarm.excused_until = self.world.now + EXCUSED_S
        if name.startswith(LIVE_STATE):
            self.history.parties.shake(self.world.now)
            self.history.chat.gap(self.world.now, self.world.now + APART_S)

    # -- parts -----------------------------------------------------------------------

    def _build(self) -> None:
        self.network = Network(self.world, self._sent)
        kind = self.scenario.seed % 4
        self.host = SimHost(
            self.world,
            self.network,
            rehearsed=kind == 3,
            shared=shared(self.scenario.seed),
            on_swarm=self.scenario.swarm,
        )
        if self.host.swarm is not None:
            self.host.swarm.wrong = self.history.wrong.add
        self.history.calm = not self.scenario.faults and not any(
            step.who == HOST for step in self.scenario.steps or ()
        )
        for number in range(0, self.scenario.players, 4):
            self.host.disk.raw.execute(
                "INSERT INTO invite_codes (code, uses_remaining) VALUES (?, ?)",
                (f"CODE-{number // 4}", 8),
            )
        self.game_servers = Process(self.world, self.network, "game servers")
        self.host.start()
        self.world.run_until(START + 5.0)
        for number in range(self.scenario.players):
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

    def _run_actions(self) -> int:
        breaker = Breaker(
            self.world, self.network, self.host, self.players, mark=self._events.append
        )
        breaker.missing = self.history.chat.gap
        breaker.troubled = trouble = self.history.answers.trouble
        breaker.begins = lambda who: trouble(self.world.now, who, settles_s=0.0)
        breaker.shaken = lambda: self.history.parties.shake(self.world.now)
        script, start = self.scenario.script(), self.world.now
        steps = self._agenda(script, breaker)
        turns = int(self.scenario.seconds / TURN_S) + 1
        for number in range(turns):
            until = start + min(self.scenario.seconds, (number + 1) * TURN_S)
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
        """Return a function that queues all steps up to a given time.

        If a step and a timer are due at the same time, the step runs first, unless the timer was
        set before this call.
        """
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
        self.history.waiting.report_overdue(self.world.now)
        self.history.chat.report_lost_lines(self.world.now, self.history.answers.untroubled)
        self.history.chat.report_lost_whispers(self.world.now, self.history.answers.untroubled)
        events, self._events[:] = tuple(self._events), []
        where = tuple(player.where for player in self.players)
        self.moments.append(Moment(self.world.now - START, where, events))
        if len(self.moments) > MOST_MOMENTS:
            self.moments[:] = thinned(self.moments)
        if self.world.now >= self._folds_at:
            self._folds_at = self.world.now + FOLD_S
            self._fold()

    def _fold(self) -> None:
        """Forget records that are complete and checked; this does not affect the run."""
        self.host.servers.forget()
        for player in self.players:
            player.web.forget()
            player.direct.forget()
        self.world.bury()
        self.history.chat.forget(self.world.now - FOLD_S / 2, self.world.now)

    def _settle(self) -> None:
        """Wait until all actions end, read what each player sees, then log all players off."""
        self._rest(QUIET_S)
        for player in self.players:
            if player.key:
                dice = random.Random(f"once more {self.scenario.seed} {player.number}")  # noqa: S311
                once_more = partial(player.begin_all, ONCE_MORE, dice)
                self.world.later(dice.uniform(0.0, 10.0), once_more)
        self._rest(QUIET_S / 2)
        for player in self.players:
            if player.key and not player.token:
                self.history.wrong.add("all goes on", f"{player.name} cannot log in any more")
        self.history.chat.settle(self.world.now)
        self._compare()
        for player in self.players:
            Deferred.fromCoroutine(player.run_action("quit", random.Random(0)))  # noqa: S311
        self._advance(self.world.now + 1.0)  # so that the timeline shows the players as away
        self._advance(self.world.now + AWAY_S)
        self._advance(self.world.now + 1.0)
        uses = {f"CODE-{number // 4}": 8 for number in range(0, self.scenario.players, 4)}
        Audit(self.host, self.history, self.players, uses).run()

    def _compare(self) -> None:
        """Compare the metagames' rooms, and the parties shown to the players."""
        if room_differences(self.host):
            self._advance(self.world.now + 20.0)  # a player may just have left
            differences = room_differences(self.host)
            if differences:
                self.history.wrong.add("live state agrees", differences)
        shown: dict[str, tuple[str, tuple[str, ...], str]] = {}
        for _ in range(
            2
        ):  # the first round renews all presences: an early poll may drop a silent member
            shown.clear()
            for player in self.players:
                if player.token:
                    polling = Deferred.fromCoroutine(self._ask_party(player, shown))
                    polling.addErrback(lambda _: None)
            self._advance(self.world.now + 60.0)
        self.history.parties.compared(shown)

    def _rest(self, seconds: float) -> None:
        """Let ``seconds`` pass.

        Then wait until no player has a pending action, but at most 200 s longer.
        """
        least = int(seconds / 20)
        for number in range(least + 10):
            if number > least and not any(player.busy for player in self.players):
                break
            self._advance(self.world.now + 20.0)

    @staticmethod
    async def _ask_party(player: SimPlayer, shown: dict[str, Any]) -> None:
        party = await party_of(player)
        if party is not None:
            members = tuple(str(account) for account in party["playerIds"])
            shown[player.account] = str(party["partyId"]), members, str(party["leaderPlayerId"])

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
            self.scenario,
            self._digest.hexdigest(),
            list(self.history.wrong.listed),
            steps,
            sum(player.web.sent_count for player in self.players),
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


def simulate(scenario: Scenario, turn: Turn = lambda part: False) -> Result:
    """Run a scenario; ``turn`` gets the completed fraction (0 to 1) and can end the run.

    Raises NoScratch if this machine has no room for the database.
    """
    with owned(World(scenario.seed).system()):
        try:
            result = Run(scenario, turn).run()
        except (sqlite3.Error, DBAPIError) as why:  # from reads that bypass the services
            judge(why)
            raise
        gc.collect()  # coroutines of dead processes end now, in their own world
    return result
