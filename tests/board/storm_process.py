"""One of the two processes of a storm: ``python -m tests.board.storm_process URL a|b [--blind]``.

The storm begins when both processes run. When both processes have finished, each process prints its
transactions, one JSON object per line, and then the notifications that it received. Process ``a``
delays some commits until process ``b`` has made other commits, so that conflicts occur on any
machine. ``--blind`` turns off the check that detects these conflicts.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import Any

import attrs
import orjson
from attrs import define, field, frozen
from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import react

from svcserver.board import engine, scripts, valkey
from svcserver.board.address import EngineAddress
from svcserver.board.engine import BoardEngine
from svcserver.board.scripts import Script
from svcserver.board.valkey import ValkeyBoard
from tests.board.storm import LANES, OPERATIONS, Done, Lane, LaneBoard

HELD_EVERY, HELD_FOR = 10, 10  # one transaction in ten waits for ten of the other process
AHEAD = 100  # transactions of process a before the second half of process b
DEADLINE_S = 60.0
BLIND = Script(scripts.COMMIT.text.replace("~= expected then", "~= expected and false then"))


@frozen
class Ready:
    """The notification that a process runs; it says whether the process receives notifications."""

    process: str
    listens: bool


@frozen
class Over:
    """The notification that all lanes of a process have ended."""

    process: str


@define(eq=False, slots=False)
class HeldEngine(BoardEngine):
    """An engine that delays some commits; ``overtaken`` counts delayed commits with a conflict."""

    wait: Any = field(default=None, init=False)  # returns the Deferred that ends the delay
    held: int = field(default=0, init=False)
    overtaken: int = field(default=0, init=False)
    _commits: int = field(default=0, init=False)
    _busy: bool = field(default=False, init=False)

    def run(self, script: Script, keys: list[bytes], arguments: list[bytes]) -> Deferred[Any]:
        commit = super().run
        self._commits += script is valkey.COMMIT
        due = self._commits % HELD_EVERY == 1 and script is valkey.COMMIT and bool(keys)
        if self.wait is None or self._busy or not due:
            return commit(script, keys, arguments)
        self._busy = True
        self.held += 1

        def count(reply: Any) -> Any:
            self.overtaken += bool(reply[0])
            return reply

        def go(_: object) -> Deferred[Any]:
            self._busy = False
            return commit(script, keys, arguments)

        return self.wait().addCallback(go).addCallback(count)


@define(eq=False)
class Process:
    """This process, and what it knows of the other process."""

    name: str
    board: ValkeyBoard
    received: list[str] = field(factory=list)  # transactions in the order of their notifications
    over: set[str] = field(factory=set)
    _done: Counter[str] = field(factory=Counter)  # transactions by process
    _there: set[str] = field(factory=set)
    _listens: set[str] = field(factory=set)
    _waiting: list[tuple[Any, Deferred[None]]] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.board.listen(Ready, self._on_ready)
        self.board.listen(Over, self._on_over)
        self.board.listen(Done, self._on_done)

    @property
    def peer_name(self) -> str:
        return "b" if self.name == "a" else "a"

    def until(self, what: Any) -> Deferred[None]:
        """Return a Deferred that fires when a notification makes ``what()`` true."""
        done: Deferred[None] = Deferred()
        self._waiting.append((what, done))
        self._look()
        return done

    def acts_of_other(self) -> float:
        """Return how many transactions the other process has done, or infinity if it has ended."""
        return math.inf if self.peer_name in self.over else self._done[self.peer_name]

    def other_acts(self) -> Deferred[None]:
        """Return a Deferred that fires when the other process has done a few more transactions."""
        enough = self.acts_of_other() + HELD_FOR
        return self.until(lambda: self.acts_of_other() >= enough)

    async def publish(self, news: object) -> None:
        await self.board.transact(lambda transaction: transaction.publish(news))

    async def meet(self) -> None:
        """Wait until both processes run and receive each other's notifications."""
        while self.peer_name not in self._listens:
            await self.publish(Ready(self.name, self.name in self._there))
            await self.board.engine.pause(0.02)
        await self.publish(Ready(self.name, listens=True))

    async def before(self, number: int) -> None:
        """Let process ``b`` wait in the middle, so that ``a`` can start before ``b`` ends."""
        if self.name == "b" and number == OPERATIONS // 2:
            await self.until(lambda: self.acts_of_other() >= AHEAD)

    def _on_ready(self, news: Ready) -> None:
        self._there.add(news.process)
        if news.listens:
            self._listens.add(news.process)

    def _on_over(self, news: Over) -> None:
        self.over.add(news.process)
        self._look()

    def _on_done(self, news: Done) -> None:
        self.received.append(news.act)
        self._done[news.act[0]] += 1
        self._look()

    def _look(self) -> None:
        waiting, self._waiting = self._waiting, []
        for what, done in waiting:
            if what():
                done.callback(None)
            else:
                self._waiting.append((what, done))


async def storm(url: str, name: str) -> None:
    """Run this process's lanes and print their transactions."""
    remote = HeldEngine(reactor, EngineAddress.parse(url))
    process = Process(name, ValkeyBoard(remote))
    remote.startService()
    await process.meet()
    if name == "a":
        remote.wait = process.other_acts
    lanes = [
        Lane(LaneBoard(lane, process.board), process.before) for lane in LANES if lane[0] == name
    ]
    await gatherResults([Deferred.fromCoroutine(lane.play()) for lane in lanes])
    await process.publish(Over(name))
    await process.until(lambda: len(process.over) == 2)
    remote.stopService()
    for lane in lanes:
        for act in lane.board.acts:
            print(orjson.dumps(attrs.asdict(act)).decode())
    figures = {"heard": process.received, "conflicts": process.board.conflicts}
    print(orjson.dumps({**figures, "held": remote.held, "overtaken": remote.overtaken}).decode())


def main(_: Any, url: str, name: str, *sabotage: str) -> Deferred[None]:
    if sabotage:
        modules: Any = valkey, engine
        for module in modules:
            module.COMMIT = BLIND
        modules[1].SCRIPTS = *scripts.SCRIPTS, BLIND
    return Deferred.fromCoroutine(storm(url, name)).addTimeout(DEADLINE_S, reactor)  # type: ignore[arg-type]


if __name__ == "__main__":
    react(main, sys.argv[1:])
