"""Two processes that use the same live state concurrently get the answers of a serial run.

Every transaction also publishes a notification, and the numbers of these notifications put all
transactions in one order. The test repeats the transactions in that order on the memory board, with
the same times and ids. The answers and the final entries must be the same.
"""

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import define, field
from twisted.internet.defer import Deferred

from svcserver.board.board import Work
from svcserver.board.engine_transaction import PREFIX, TAG
from svcserver.board.kinds import Kind
from svcserver.board.memory import MemoryBoard, MemoryTransaction
from svcserver.board.scripts import STAMP
from svcserver.board.valkey import Overtaken
from svcserver.board.waiting import at_once
from tests.board.storm import LANES, Act, Done, Lane, LaneBoard
from tests.support.valkey import BlockingEngine, fresh_url, shared

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[2]
PATIENCE_S = 90.0
DONE = f"{Done.__module__}.{Done.__qualname__}"


@define
class Storm:
    """The transactions of two processes, their order, and the final entries.

    The keys of ``acts`` are the names of the transactions, and ``order`` is a list of these names.
    """

    acts: dict[str, Act]
    order: list[str]
    left: dict[str, dict[str, Any]]  # entries by kind and key
    figures: dict[str, dict[str, Any]]  # by process


def storm(folder: Path, *sabotage: str) -> Storm:
    """Run two processes on an empty engine; return their transactions and the final entries."""
    url = fresh_url()
    begun: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in "ab":
            words = [sys.executable, "-m", "tests.board.storm_process", url, name, *sabotage]
            with (folder / name).open("wb") as output:
                begun[name] = subprocess.Popen(words, stdout=output, cwd=ROOT)
        for process in begun.values():
            assert process.wait(PATIENCE_S) == 0
    finally:
        for process in begun.values():
            process.kill()
            process.wait()
    acts, figures = {}, {}
    for name in "ab":
        *lines, last = map(orjson.loads, (folder / name).read_bytes().splitlines())
        acts.update({process["name"]: Act(**process) for process in lines})
        figures[name] = last
    with BlockingEngine(shared().port, int(url.rpartition("/")[2])) as engine:
        return Storm(acts, order_in(engine), left_in(engine), figures)


def order_in(engine: BlockingEngine) -> list[str]:
    """Return the names of the transactions in the order of the engine's message numbers."""
    messages = engine.command("LRANGE", f"svc:{engine.space}:news:lately", 0, -1)
    parts = [message.split(b" ", 2) for message in messages]
    assert [int(number) for number, _, _ in parts] == list(range(len(parts)))
    return [orjson.loads(text)["act"] for _, name, text in parts if name == DONE.encode()]


def left_in(engine: BlockingEngine) -> dict[str, dict[str, Any]]:
    """Return the values of the engine's remaining entries, without their stamps.

    The result is a dict from kind to a dict from key to value.
    """
    left: dict[str, dict[str, Any]] = {}
    for name in engine.command("KEYS", "svc:*"):
        kind, _, key = name.decode().removeprefix(PREFIX).partition(":")
        if key and name.startswith(PREFIX.encode()):
            value = engine.command("GET", name)[STAMP:]
            try:
                left.setdefault(kind, {})[key] = orjson.loads(value)
            except orjson.JSONDecodeError:  # of a kind that is sealed
                left.setdefault(kind, {})[key] = orjson.loads(value[TAG:])
    return left


@define(eq=False)
class Turn:
    """A lane's board, which holds the lane's next transaction until the replay reaches it."""

    shared = True
    work: Work[Any] | None = field(default=None, init=False)
    _done: Deferred[Any] = field(init=False)

    def transact(self, work: Work[Any], near: Any = ()) -> Deferred[Any]:
        self.work, self._done = work, Deferred()
        return self._done

    def fire(self, result: Any) -> None:
        self.work = None
        self._done.callback(result)

    def overtake(self) -> None:
        self.work = None
        self._done.errback(Overtaken())


class Memory(MemoryBoard):
    """A memory board that gives each transaction its recorded ids; no entry expires."""

    ids: tuple[str, ...] = ()

    def _run(self, work: Any, now: float) -> tuple[Any, MemoryTransaction]:
        transaction = MemoryTransaction(0.0, self._tables, list(self.ids))
        return work(transaction), transaction

    def kinds(self) -> list[Kind[Any]]:
        """Return the kinds of entries that were used."""
        return list(self._tables)


class Replay:
    """A replay of all lanes on a memory board.

    ``lies`` names the transactions whose answers in the replay differ from those in the storm.
    """

    def __init__(self, storm: Storm) -> None:
        self.storm = storm
        self.memory = Memory(lambda: 0.0)
        self.turns = {lane: Turn() for lane in LANES}
        self.boards: dict[str, LaneBoard] = {}
        self.over: list[str] = []
        self.lies: list[str] = []
        for name, turn in self.turns.items():
            board: Any = turn
            self.boards[name] = LaneBoard(name, board)
            played = Deferred.fromCoroutine(Lane(self.boards[name], self._at_once).play())
            played.addCallback(partial(self._over, name))
        for lane in storm.order:
            self._do(lane)
        for name in LANES:
            self._skip(name)

    async def _at_once(self, number: int) -> None:
        """Return immediately: in a replay no lane waits for the other process."""

    def _over(self, name: str, _: object) -> None:
        self.over.append(name)

    def _do(self, name: str) -> None:
        lane = name.partition(" ")[0]
        self._skip(lane)
        turn, acts, expected = self.turns[lane], self.boards[lane].acts, self.storm.acts[name]
        if turn.work is None or acts[-1].name != name:
            self.lies.append(name)
            return
        self.memory.ids = tuple(expected.ids)
        result = at_once(self.memory.transact(turn.work))
        if acts[-1].answer != expected.answer:
            self.lies.append(name)
        turn.fire(result)

    def _skip(self, lane: str) -> None:
        """Skip transactions that never committed, because other transactions were always faster."""
        turn, acts = self.turns[lane], self.boards[lane].acts
        while turn.work is not None:
            act = self.storm.acts.get(acts[-1].name)
            if act is None or not act.overtaken:
                return
            turn.overtake()

    def differs(self) -> list[tuple[str, object, object]]:
        """Return the kinds whose entries differ; entries that have possibly expired are ignored."""
        saved: dict[str, Any] = orjson.loads(orjson.dumps(self.memory.saved()))
        differences = []
        for kind in self.memory.kinds():
            ours = {key: value for key, value, _ in saved[kind.name]}
            theirs = self.storm.left.pop(kind.name, {})
            if ours != theirs and kind.lives_s > PATIENCE_S:
                differences.append((kind.name, ours, theirs))
        return [*differences, *((name, {}, left) for name, left in self.storm.left.items())]


# slow: two processes, which bring a third of the metagame along
def test_two_processes_reply_like_one_process_in_commit_order(tmp_path: Path) -> None:
    storm_result = storm(tmp_path)
    counted = [name for name, act in storm_result.acts.items() if not act.overtaken]
    assert sorted(storm_result.order) == sorted(counted)
    assert (
        storm_result.figures["a"]["heard"]
        == storm_result.figures["b"]["heard"]
        == storm_result.order
    )
    assert (
        storm_result.figures["a"]["overtaken"] > 0
    )  # by the other process, between load and commit
    assert not [name for name, act in storm_result.acts.items() if act.broke]
    replay = Replay(storm_result)
    assert replay.lies == []
    assert sorted(replay.over) == sorted(LANES)
    assert replay.differs() == []


# slow: two more processes, for the sabotage that the test above rests on
def test_processes_answer_differently_without_the_comparison(tmp_path: Path) -> None:
    assert Replay(storm(tmp_path, "--blind")).lies != []
