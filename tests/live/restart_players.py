"""Players who keep playing while the metagame is restarted or killed; each has a relay.

The program runs in its own process for tests of restarts. The players register, join chat rooms,
and then send requests and chat lines. They reconnect whenever their chat connection ends. At the
end, the program compares the replies that the players received with the data that the host has
stored. It also compares the lines that were sent with those that each player received. It prints
``ready`` once all players are in their rooms, and one JSON object at the end. The program ends when
the time is over, a file signals that no more faults follow, and all players are connected again.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
from attrs import asdict, define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater, react
from twisted.logger import globalLogBeginner
from twisted.python.failure import Failure

from svcserver.ctl.host import find
from svcserver.ctl.play.chain import Chain
from svcserver.ctl.play.chat import client_of, enter, log_in
from svcserver.ctl.play.crowd import gather
from svcserver.ctl.play.evening import source_of
from svcserver.ctl.play.player import Player
from svcserver.ctl.play.story import PlayFailed
from svcserver.ctl.play.wire import HttpWire
from svcserver.kernel import json
from svcserver.kernel.descriptors import raise_file_limit
from svcserver.kernel.secrets import hex_token
from svcserver.players import requests
from svcserver.players.chat import ChatClient, Line
from svcserver.relay.relaying import RelayService
from tests.live.restart_acts import ONCE

IN_A_ROOM = 20
AT_ONCE = 16
SETTLE_S = 5.0  # after the last line
BACK_S = 0.3  # before a player whose chat connection ended reconnects
MATERIAL = "MAT_SCALE_FLAME"
ACTS = (
    "beat",
    "beat",
    "read",
    "read",
    "earn",
    "earn",
    "save",
    "log_in",
)  # a repetition of these requests has no further effect
OFTEN_ONCE = 0.5  # the share of requests that must count once
BACK_AT_MOST_S = 120.0  # for all players to reconnect on a slow machine
LOOK_S = 0.1


@define
class Report:
    """The results of all players together."""

    requests: int = 0
    failed: Counter[str] = field(factory=Counter)  # failed requests and upgrades, by the failure
    once: int = 0  # requests that must count once
    slowest_s: float = 0.0
    lines: int = 0
    echoed: int = 0  # lines that came back to their speaker
    deliveries: int = 0
    doubled: int = 0
    missing: int = 0  # deliveries of echoed lines that never arrived
    came_back: int = 0  # reconnections to chat
    not_kept: int = 0  # players for whom acknowledged data is lost


@define
class Spoken:
    """A chat line, the players who must receive it, and how often each player received it."""

    speaker: Person
    wanted: dict[Person, object]  # each with its connection
    received_by: Counter[Person] = field(factory=Counter)


@define(eq=False)
class Person:
    """A player with a relay, who sends requests and chat lines."""

    player: Player
    relay: RelayService
    session: PlaySession
    room: str
    resource: str = field(factory=lambda: f"V2:svc:WIN::{hex_token(32)}")
    chat: ChatClient | None = None
    joined: bool = False
    earned: int = 0

    @property
    def connection(self) -> ChatClient | None:
        """Return the chat connection while the player is in the room, else None."""
        return self.chat if self.joined and self.chat is not None and self.chat.alive else None

    async def arrive(self) -> None:
        await self.player.register()
        await self.player.log_in()
        await self.player.load()

    async def asks(self) -> None:
        """Send requests at random moments until the session is over."""
        session, clock = self.session, self.session.reactor
        while not session.over:
            await deferLater(clock, random.uniform(0, 2 * session.pause_s))
            began = clock.seconds()
            if random.random() < OFTEN_ONCE:
                await self._does_once(random.choice(list(ONCE)))
            else:
                await self._does(random.choice(ACTS))
            session.report.requests += 1
            session.report.slowest_s = max(session.report.slowest_s, clock.seconds() - began)

    async def _does(self, act: str) -> None:
        try:
            await getattr(self, act, getattr(self.player, act, None))()
        except PlayFailed as why:
            self.session.report.failed[f"{act}: {why}"[:200]] += 1

    async def _does_once(self, act: str) -> None:
        """Send a request that must count once and that needs a second player."""
        session = self.session
        second = session.people[(session.people.index(self) ^ 1) % len(session.people)]
        session.report.once += 1
        try:
            await ONCE[act](self.player, second.player)
        except PlayFailed as why:
            session.report.failed[f"{act}: {why}"[:200]] += 1

    async def beat(self) -> None:
        await self.player.beat("/Game/Maps/city")

    async def read(self) -> None:
        result = (await self.player.wire.send_request("GET", "/character")).json
        if result[0]["updateVersion"] < self.player.version:
            raise PlayFailed("metagame", "an acknowledged save is gone")

    async def earn(self) -> None:
        added = [requests.stack(MATERIAL, 1)]
        call = requests.transact(self.player.character, str(uuid4()), "Hunt", addStackedItems=added)
        await self.player.wire.send_request(*call)
        self.earned += 1

    async def talks(self) -> None:
        """Send chat lines now and then; reconnect whenever the chat connection ends."""
        session, first = self.session, True
        while not session.over:
            self.joined = False
            try:
                await self._come()
            except PlayFailed:
                if self.chat is None or self.chat.transport is None:
                    session.report.failed["chat: the upgrade failed"] += 1
            else:
                session.report.came_back += not first
                first, self.joined = False, True
                session.arrived()
            while self.connection is not None and not session.over:
                await deferLater(session.reactor, random.uniform(0, 2 * session.silence_s))
                if self.connection is not None and not session.over:
                    session.say(self)
            await deferLater(session.reactor, random.uniform(0, 2 * BACK_S))

    async def _come(self) -> None:
        client = client_of(
            self.session.reactor, self.player, partial(self.session.received_by, self)
        )
        client.resource, self.chat = self.resource, client
        await log_in(client, self.player)
        await enter(client, self.room)

    async def _log_in_again(self) -> None:
        """Log in again within the gateway's rate limit, because all players share one network."""
        while True:
            try:
                return await self.player.log_in()
            except PlayFailed as why:
                if "rate limit" not in str(why):
                    raise
                await deferLater(self.session.reactor, 1.0)

    async def has_everything(self) -> bool:
        """Return whether a new login returns everything that the host has acknowledged."""
        player = self.player
        await self._log_in_again()
        [character] = (await player.wire.send_request("GET", "/character")).json
        call = requests.inventory(player.account, player.character)
        held = (await player.wire.send_request(*call)).json["stackedItems"]
        result = sum(entry["quantity"] for entry in held if entry["catalogId"] == MATERIAL)
        saved = character["data"], character["updateVersion"]
        return (*saved, result) == (player.data, player.version, self.earned)


@define(eq=False)
class PlaySession:
    """All players of a session.

    If ``strict`` is true, a line also counts as lost if the listener's chat connection ended just
    after the line was sent. No player leaves before the file ``enough`` exists.
    """

    reactor: Any
    chain: Chain
    pause_s: float
    silence_s: float
    strict: bool
    enough: Path
    people: list[Person] = field(factory=list)
    report: Report = field(factory=Report)
    over: bool = False
    _lines: dict[str, Spoken] = field(factory=dict)
    _all_there: Deferred[None] = field(factory=Deferred)

    async def live(self, count: int, seconds: float) -> Report:
        for number in range(count):
            relay = RelayService(self.reactor, self.chain.gateway, bind=source_of(number))
            relay.startService()
            wire = HttpWire(self.reactor, f"http://127.0.0.1:{relay.port}")
            player = Player(self.reactor, wire, f"P{number}_{hex_token(4)}")
            self.people.append(Person(player, relay, self, f"City-{number // IN_A_ROOM}"))
        await gather([person.arrive() for person in self.people], AT_ONCE)
        talking = [Deferred.fromCoroutine(person.talks()) for person in self.people]
        await self._all_there
        click.echo("ready")
        asking = [Deferred.fromCoroutine(person.asks()) for person in self.people]
        await deferLater(self.reactor, seconds)
        await self._all_back()
        self.over = True
        for done in (*talking, *asking):
            await done
        await deferLater(self.reactor, SETTLE_S)
        self._count()
        stored = await gather([person.has_everything() for person in self.people], AT_ONCE)
        self.report.not_kept = stored.count(False)
        for person in self.people:
            await person.player.wire.close()
            await person.relay.stopService()
        return self.report

    async def _all_back(self) -> None:
        """Play on until the last fault is over and all players are in the room again."""
        while not self.enough.exists():
            await deferLater(self.reactor, LOOK_S)
        late = self.reactor.seconds() + BACK_AT_MOST_S
        while self.reactor.seconds() < late and not all(
            person.connection for person in self.people
        ):
            await deferLater(self.reactor, LOOK_S)

    def arrived(self) -> None:
        if all(person.joined for person in self.people) and not self._all_there.called:
            self._all_there.callback(None)

    def say(self, speaker: Person) -> None:
        text = f"line {len(self._lines)}"
        wanted: dict[Person, object] = {
            person: person.connection
            for person in self.people
            if person.room == speaker.room and person.connection is not None
        }
        self._lines[text] = Spoken(speaker, wanted)
        assert speaker.chat is not None
        speaker.chat.send_to_room(speaker.room, text)

    def received_by(self, listener: Person, line: Line) -> None:
        if line.text in self._lines:
            self._lines[line.text].received_by[listener] += 1

    def _count(self) -> None:
        report = self.report
        for value in self._lines.values():
            report.lines += 1
            report.deliveries += value.received_by.total()
            report.doubled += sum(times > 1 for times in value.received_by.values())
            if value.received_by[value.speaker]:
                report.echoed += 1
                report.missing += sum(
                    not value.received_by[who]
                    for who, connection in value.wanted.items()
                    if self.strict or who.connection is connection
                )


@click.command("restart-players")
@click.argument("folder", type=Path)
@click.option("--players", type=int)
@click.option("--seconds", type=float)
@click.option("--pause-seconds", type=float, default=1.0)
@click.option("--silence-seconds", type=float, default=4.0)
@click.option("--strict", is_flag=True)
@click.option("--enough", type=Path, required=True)
def main(
    folder: Path,
    players: int,
    seconds: float,
    pause_seconds: float,
    silence_seconds: float,
    strict: bool,
    enough: Path,
) -> None:
    """Run the players in this process."""
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    raise_file_limit()
    chain = Chain.from_host_settings(find(str(folder), None))

    async def work(reactor: Any) -> None:
        session = PlaySession(reactor, chain, pause_seconds, silence_seconds, strict, enough)
        report = await session.live(players, seconds)
        click.echo(json.dump(asdict(report)).decode())

    def print_failure(why: Failure) -> Failure:
        why.printTraceback(sys.stderr)  # the log goes nowhere
        return why

    react(lambda reactor: Deferred.fromCoroutine(work(reactor)).addErrback(print_failure))
