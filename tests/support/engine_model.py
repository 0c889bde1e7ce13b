"""A board on an in-memory model of Valkey that runs each transaction twice, without a network.

Like ``TestBoard``, the board rejects the first commit of each transaction that compares something,
as if another process had been faster. The work then runs again and must return, write and publish
the same values.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import hiredis
from attrs import define, field
from twisted.internet.defer import Deferred, succeed

from simulation.clock import World
from simulation.network import Network
from simulation.valkey import SimValkey
from svcserver.board.board import BoardTransaction, Key, Work
from svcserver.board.connection import Argument, EngineReplyError
from svcserver.board.engine import Ask, Pushed
from svcserver.board.scripts import COMMIT, SCRIPTS, Script
from svcserver.board.valkey import ANY, ValkeyBoard
from svcserver.board.waiting import at_once
from svcserver.kernel.refusals import Refusal

T = TypeVar("T")
REFUSED = [1]  # COMMIT's reply if the first key has changed since it was read


@define(eq=False)
class Wire:
    """The model's side of one connection; ``push`` is called with what the model publishes."""

    push: Callable[[bytes], None]

    def send(self, data: bytes) -> None:
        self.push(data)


@define(eq=False, slots=False)
class ModelEngine:
    """An ``Engine`` on the model; ``refusals`` counts the rejected commits."""

    model: SimValkey
    refusals: int = field(default=0, init=False)
    # the transaction's first commit has been refused
    _again: bool = field(default=False, init=False)
    _pushed: Pushed | None = field(default=None, init=False)
    _news: list[bytes] = field(factory=list, init=False)  # on their way
    _wire: Any = field(init=False)
    space = "0"

    def __attrs_post_init__(self) -> None:
        self._wire = Wire(self._news.append)
        self.model.wires[self._wire] = None
        for script in SCRIPTS:
            self.command("SCRIPT", "LOAD", script.text)

    def deliver(self) -> None:
        while self._news:
            _, channel, text = _read(self._news.pop(0))
            assert self._pushed is not None
            self._pushed(channel, text)

    def command(self, *command: Argument) -> Any:
        words = [word if isinstance(word, bytes) else str(word).encode() for word in command]
        return _read(self.model.answer(self._wire, words))

    def send_command(self, *command: Argument) -> Deferred[Any]:
        return succeed(self.command(*command))

    def run(self, script: Script, keys: list[bytes], arguments: list[bytes]) -> Deferred[Any]:
        if script is COMMIT:
            compares = any(argument != ANY for argument in arguments[: 4 * len(keys) : 4])
            self._again = compares and not self._again
            if self._again:
                self.refusals += 1
                return succeed(REFUSED)
        done = self.send_command("EVALSHA", script.sha, len(keys), *keys, *arguments)
        self.deliver()
        return done

    def before_all(self, look: Callable[[Ask], Awaitable[None]]) -> None:
        at_once(Deferred.fromCoroutine(look(self.send_command)))  # type: ignore[arg-type]

    def subscribe(self, channel: bytes) -> None:
        self.command("SUBSCRIBE", channel)

    def on_messages(
        self, pushed: Pushed, joined: Callable[[], None], disconnected: Callable[[], None]
    ) -> None:
        self._pushed = pushed
        joined()

    def seconds(self) -> float:
        return self.model.world.now

    def pause(self, seconds: float) -> Deferred[None]:
        return succeed(None)


def _read(reply: bytes) -> Any:
    reader = hiredis.Reader(protocolError=EngineReplyError, replyError=EngineReplyError)
    reader.feed(reply)
    parsed = reader.gets()
    if isinstance(parsed, EngineReplyError):
        raise parsed
    return parsed


@define(eq=False)
class Runs:
    """The results of each complete run of one transaction; all results must be equal."""

    work: Work[Any]
    outcomes: list[str] = field(factory=list)

    def __call__(self, transaction: BoardTransaction) -> Any:
        own: Any = transaction
        try:
            result = self.work(transaction)
        except Refusal as why:
            self._note(own, f"{type(why).__name__}: {why.message}")
            raise
        self._note(own, f"{result!r} {own.written!r} {own.news!r}")
        return result

    def _note(self, transaction: Any, outcome: str) -> None:
        if not transaction.missing:  # otherwise the work has not read all entries that it needs
            self.outcomes.append(outcome)

    def check(self) -> None:
        assert len(set(self.outcomes)) <= 1, self.outcomes


class ModelBoard(ValkeyBoard):
    """A board that compares the results of repeated runs of each transaction."""

    def transact(self, work: Work[T], near: Any = ()) -> Deferred[T]:
        runs = Runs(work)

        def check(result: Any) -> Any:
            runs.check()
            return result

        near_keys: tuple[Key, ...] = tuple(near)
        return ValkeyBoard.transact(self, runs, near_keys).addBoth(check)


class OnModel:
    """A ``TestBoard`` on the model; ``now`` is the model's time, which decides what has expired."""

    def __init__(self, now: float = 0.0) -> None:
        self.world = World(1)
        model = SimValkey(self.world, Network(self.world, lambda *_: None))
        model.start()
        self._begin, self._start, self._now = self.world.now, now, now
        self.engine = ModelEngine(model)
        self.board = ModelBoard(self.engine, lambda engine_s: self.now)

    @property
    def now(self) -> float:
        return self._now

    @now.setter
    def now(self, value: float) -> None:
        self._now = value  # the exact value, because the engine would lose fractions
        self.world.now = max(self.world.now, self._begin + value - self._start)

    def do(self, work: Work[T], now: float | None = None) -> T:
        """Run ``work`` and return its result; set the time to ``now`` first if it is given."""
        if now is not None:
            self.now = now
        return at_once(self.board.transact(work))
