"""The cost of a live-state transaction: a party poll in memory and on a real live-state engine.

    python -m bench.board

The CPU time per poll is measured for this process with the process's own clock, and for the engine
with /proc. The cost of one script call is also measured: with the project's own client, and with
txredisapi if that is installed.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from attrs import frozen
from twisted.internet import reactor as twisted_reactor
from twisted.internet.defer import Deferred, gatherResults

from bench.meters import cpu_s
from svcserver.board.address import EngineAddress
from svcserver.board.engine import BoardEngine
from svcserver.board.memory import MemoryBoard
from svcserver.board.scripts import LOAD
from svcserver.board.valkey import ValkeyBoard
from svcserver.metagame.social.parties.store import LiveParties, near
from tests.support.valkey import Instance

reactor: Any = twisted_reactor
PLAYERS, POLLS, WIDTH = 400, 8_000, 16


async def parties_of_four(parties: LiveParties) -> list[str]:
    """Return players, each in a party with three others."""
    players = [f"UID-{number:08d}-1111-2222-3333-444444444444" for number in range(PLAYERS)]
    for first in range(0, PLAYERS, 4):
        leader, *members = players[first : first + 4]
        for member in members:
            await parties.transact_with_rules(
                lambda rules, a=leader, b=member: rules.invite(a, b, blocked=False)
            )
            await parties.transact_with_rules(
                lambda rules, b=member: rules.accept(rules.invites_to(b)[0])
            )
    return players


@frozen
class PollCost:
    """The CPU microseconds of a poll in this process and in the engine, and its duration."""

    ours_us: float
    engine_us: float
    p50_ms: float
    p99_ms: float

    def __str__(self) -> str:
        costs = f"metagame {self.ours_us:.1f} us, engine {self.engine_us:.1f} us"
        return f"{costs}; p50 {self.p50_ms:.2f} ms, p99 {self.p99_ms:.2f} ms"


async def timed(pid: int | None, act: Callable[[int], Any]) -> PollCost:
    """Make ``POLLS`` polls, ``WIDTH`` of them at a time, and return the cost of one."""
    waits: list[float] = []

    async def every_sixteenth(start: int) -> None:
        for number in range(start, POLLS, WIDTH):
            began = time.perf_counter()
            await act(number)
            waits.append(time.perf_counter() - began)

    ours, theirs = time.process_time(), cpu_s(pid) if pid else 0.0
    await gatherResults([Deferred.fromCoroutine(every_sixteenth(start)) for start in range(WIDTH)])
    ours = (time.process_time() - ours) / POLLS * 1e6
    theirs = (cpu_s(pid) - theirs) / POLLS * 1e6 if pid else 0.0
    waits.sort()
    half, most = (waits[int(len(waits) * part)] * 1e3 for part in (0.5, 0.99))
    return PollCost(ours, theirs, half, most)


async def measure(instance: Instance) -> None:
    """Print a line for each figure."""
    assert instance.process is not None
    pid = instance.process.pid
    engine = BoardEngine(reactor, EngineAddress.parse(instance.url))
    engine.startService()
    boards = {"in memory": MemoryBoard(time.time), "on the engine": ValkeyBoard(engine)}
    for name, board in boards.items():
        parties = LiveParties(board)
        players = await parties_of_four(parties)

        async def poll(number: int, parties: Any = parties, players: Any = players) -> None:
            me = players[number * 7 % PLAYERS]
            await parties.transact_with_rules(
                lambda rules: rules.standing(rules.poll(me)), near(me)
            )

        await timed(None, poll)  # fill the caches of each player
        print(f"party poll {name:14}", await timed(None if board.shared is False else pid, poll))
    keys = [b"svc:none:%d" % number for number in range(5)]
    called = await timed(pid, lambda _: engine.run(LOAD, keys, [b""] * 5))
    print("script call, our wire    ", called)
    await other_client(instance, keys, pid)
    engine.stopService()


async def other_client(instance: Instance, keys: list[bytes], pid: int) -> None:
    """Measure the same script call through txredisapi, a Redis client for Twisted."""
    try:
        import txredisapi
    except ImportError:
        return
    client = await txredisapi.Connection("127.0.0.1", instance.port, charset=None)
    called = await timed(pid, lambda _: client.evalsha(LOAD.sha, keys, [b""] * 5))
    print("script call, txredisapi  ", called)
    await client.disconnect()


def main() -> None:
    """Print the figures."""
    instance = Instance.make()
    instance.start()

    def over(result: Any) -> None:
        if result is not None:
            result.printTraceback(file=sys.stderr)
        reactor.stop()

    reactor.callWhenRunning(
        lambda: Deferred.fromCoroutine(measure(instance)).addErrback(over).addCallback(over)
    )
    try:
        reactor.run()
    finally:
        instance.end()


if __name__ == "__main__":
    main()
