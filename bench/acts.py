"""Heartbeats and party polls of a hundred thousand accounts on one board.

``bench.scale`` starts this module as several worker processes, because one core cannot send enough
to load the engine:

    python -m bench.acts URL NUMBER COUNT

Worker NUMBER of COUNT first registers its accounts on the engine and prints ``there``. For each
line on its standard input, the worker sends requests for that many seconds and prints a JSON
object. The worker ends when its standard input is closed.
"""

import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from attrs import asdict, define, frozen
from twisted.internet import reactor as twisted_reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.threads import deferToThread

from svcserver.board.address import EngineAddress
from svcserver.board.board import Board
from svcserver.board.engine import BoardEngine
from svcserver.board.valkey import ValkeyBoard
from svcserver.metagame.play.presence.feature import Online
from svcserver.metagame.social.parties.store import LiveParties, near

reactor: Any = twisted_reactor
ACCOUNTS = 100_000
AT_ONCE = 64  # a worker's requests in flight
BEATS = 1 / 3  # share of heartbeats; the other requests are polls
LOOK = 64  # requests between two readings of the clock


@frozen
class Stretch:
    """The requests that one worker made in one run, and the wall-clock and CPU time they took."""

    acts: int
    seconds: float
    cpu_s: float

    @property
    def per_second(self) -> float:
        """Return the requests per wall-clock second."""
        return self.acts / self.seconds

    @property
    def us(self) -> float:
        """Return the microseconds of CPU per request."""
        return self.cpu_s / self.acts * 1e6


class Crowd:
    """The accounts of one worker: every ``count``-th account, beginning with number ``number``."""

    def __init__(self, board: Board, number: int = 0, count: int = 1) -> None:
        mine = range(number, ACCOUNTS, count)
        self.people = [f"UID-{account:08d}-2222-2222-3333-444444444444" for account in mine]
        self.parties, self.online = LiveParties(board), Online(board)
        self.dice = random.Random(number)

    async def come(self) -> None:
        """Send a heartbeat and a poll for each account."""

        async def some(first: int) -> None:
            for who in self.people[first::AT_ONCE]:
                await self._keep_active(who, beat=True)
                await self._keep_active(who, beat=False)

        await _side_by_side(some)

    async def send_requests(self, seconds: float) -> Stretch:
        """Send requests for random accounts for ``seconds``, ``AT_ONCE`` of them concurrently."""
        done, cpu, began = 0, time.process_time(), time.perf_counter()

        async def some(_: int) -> None:
            nonlocal done
            while time.perf_counter() - began < seconds:
                for _ in range(LOOK):
                    who = self.people[int(self.dice.random() * len(self.people))]
                    await self._keep_active(who, beat=self.dice.random() < BEATS)
                done += LOOK

        await _side_by_side(some)
        return Stretch(done, time.perf_counter() - began, time.process_time() - cpu)

    async def _keep_active(self, who: str, *, beat: bool) -> None:
        if beat:
            await self.online.mark_seen(who, "/Game/Maps/city", "")
        else:
            await self.parties.transact_with_rules(
                lambda rules: rules.standing(rules.poll(who)), near(who)
            )


async def _side_by_side(some: Callable[[int], Any]) -> None:
    await gatherResults([Deferred.fromCoroutine(some(first)) for first in range(AT_ONCE)])


def on_the_reactor(work: Callable[[], Awaitable[None]]) -> None:
    """Run ``work`` in the reactor until it finishes; a process can run its reactor only once."""
    failed: list[bool] = []

    def over(result: Any) -> None:
        if result is not None:
            failed.append(True)
            result.printTraceback(file=sys.stderr)
        reactor.stop()

    def begin() -> None:
        Deferred.fromCoroutine(work()).addBoth(over)  # type: ignore[arg-type]

    reactor.callWhenRunning(begin)
    reactor.run()
    if failed:
        raise SystemExit(1)


# -- a process of its own -----------------------------------------------------


@define
class Worker:
    """A worker process that sends requests on command."""

    process: subprocess.Popen[bytes]

    def line(self) -> bytes:
        """Wait for the next line of the worker's output."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a worker ended too early")
        return line

    def begin(self, seconds: float) -> None:
        """Make the worker send requests for ``seconds``."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"%f\n" % seconds)
        self.process.stdin.flush()


@contextmanager
def workers(url: str, count: int) -> Iterator[list[Worker]]:
    """Start ``count`` workers, and wait until each has registered its accounts on the engine."""
    made: list[Worker] = []
    try:
        for number in range(count):
            words = [sys.executable, "-m", "bench.acts", url, str(number), str(count)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            made.append(Worker(subprocess.Popen(words, **pipes)))  # type: ignore[call-overload]
        for worker in made:
            worker.line()
        yield made
    finally:
        for worker in made:
            worker.process.kill()
            worker.process.communicate()


def together(some: Sequence[Worker], seconds: float) -> list[Stretch]:
    """Make all workers send requests concurrently."""
    for worker in some:
        worker.begin(seconds)
    return [Stretch(**orjson.loads(entry.line())) for entry in some]


def main() -> None:
    """Run one worker."""
    url, number, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

    def say(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    async def work() -> None:
        engine = BoardEngine(reactor, EngineAddress.parse(url))
        engine.startService()
        crowd = Crowd(ValkeyBoard(engine), number, count)
        await crowd.come()
        say("there")
        while line := await deferToThread(sys.stdin.readline):
            say(orjson.dumps(asdict(await crowd.send_requests(float(line)))).decode())
        engine.stopService()

    on_the_reactor(work)


if __name__ == "__main__":
    main()
