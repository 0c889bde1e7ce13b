"""Measured runs: all players in a closed loop, or many players at a client's own pace."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence

from attrs import define, field

from bench.kept import QUANTILES, quantiles_ms
from bench.meters import cpu_s
from bench.players import SESSION_S, Player, timeline

WARM_S = 0.5
BEAT_S = 0.02  # between two heartbeats of a player during many logins
ARRIVE_S = 1 / 12_000  # between two logins of many; about as fast as a gateway passes them on
Operation = Callable[[], Awaitable[bool]]


@define
class Run:
    """The figures of one measured run."""

    per_second: float
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    errors: int = 0
    generator: float = 0.0  # of its core
    server_us: float = 0.0  # CPU of the server for one request
    missing: int = 0  # acknowledged, but missing afterwards
    latency_ms: list[float] = field(factory=list)  # at QUANTILES
    saves_ms: list[float] = field(factory=list)  # of a crowd's saves: the p99 and the maximum


@define
class Runs:
    """The runs of every server in every round."""

    of: dict[str, list[Run]] = field(factory=dict)

    def add(self, name: str, run: Run) -> None:
        """Add a round."""
        self.of.setdefault(name, []).append(run)

    def rate(self, name: str) -> float:
        """Return the median of the requests per second."""
        return statistics.median(run.per_second for run in self.of[name])

    def latency_ms(self, name: str) -> list[float]:
        """Return the latency curve: the median of the rounds at each quantile."""
        curves = [run.latency_ms for run in self.of[name] if run.latency_ms]
        return [statistics.median(at) for at in zip(*curves, strict=True)]

    def ratio(self, name: str, yardstick: str) -> float:
        """Return the median of the ratios per round."""
        pairs = zip(self.of[name], self.of[yardstick], strict=True)
        return statistics.median(run.per_second / theirs.per_second for run, theirs in pairs)


@define
class _Watch:
    """A recorder of the requests between two moments."""

    pids: tuple[int, ...]
    taken: list[float] = field(factory=list)
    errors: int = 0
    on: bool = False
    over: bool = False

    def note(self, seconds: float, good: bool) -> None:
        if self.on:
            self.taken.append(seconds)
            self.errors += not good

    async def stretch(self, seconds: float) -> Run:
        await asyncio.sleep(WARM_S)
        self.on = True
        cpu, own, began = self._cpu_s(), time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        self.on = False
        wall = time.perf_counter() - began
        cpu, own = self._cpu_s() - cpu, time.process_time() - own
        self.over = True
        self.taken.sort()
        count = max(1, len(self.taken))
        p50, p99, *curve = quantiles_ms(self.taken, (0.5, 0.99, *QUANTILES))
        us = 1e6 * cpu / count
        return Run(count / wall, p50, p99, self.errors, own / wall, us, latency_ms=curve)

    def _cpu_s(self) -> float:
        return sum(map(cpu_s, self.pids))


async def measure(operations: Sequence[Operation], pids: tuple[int, ...], seconds: float) -> Run:
    """Run every player in a closed loop for ``seconds``; ``pids`` are the server's processes."""
    watch = _Watch(pids)

    async def play(operation: Operation) -> None:
        while not watch.over:
            began = time.perf_counter()
            good = await operation()
            watch.note(time.perf_counter() - began, good)

    tasks = [asyncio.ensure_future(play(operation)) for operation in operations]
    run = await watch.stretch(seconds)
    await asyncio.gather(*tasks)
    return run


async def crowd(cast: Sequence[Player], pid: int, seconds: float) -> Run:
    """Run each player at a client's pace, from a random moment of a session.

    If the load generator sends a login late, the delay counts as part of the login's duration.
    """
    watch = _Watch((pid,))
    saves: list[float] = []

    async def play(player: Player) -> None:
        rng = player.rng
        steps, at = timeline(rng), rng.random() * SESSION_S
        zero = time.perf_counter() - at
        while not watch.over:
            for due, name in steps:
                if due < at:
                    continue
                await asyncio.sleep(max(0.0, zero + due - time.perf_counter()))
                if watch.over:
                    return
                began = time.perf_counter() if name != "login" else zero + due
                good = await player.operation(name)()
                took = time.perf_counter() - began
                watch.note(took, good)
                if watch.on and name == "save":
                    saves.append(took)
            zero, at = zero + SESSION_S, 0.0

    tasks = [asyncio.ensure_future(play(player)) for player in cast]
    run = await watch.stretch(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    run.saves_ms = quantiles_ms(sorted(saves), (0.99, 1.0))
    return run


async def storm(cast: Sequence[Player], online: Sequence[Player], pid: int) -> Run:
    """Let the players of ``cast`` log in, and meanwhile measure the heartbeats of ``online``.

    A login is sent every ``ARRIVE_S``, faster than the server can sign. The result's rate is the
    rate of the logins, and its CPU time is that of a login and of the heartbeats meanwhile.
    """
    watch = _Watch((pid,), on=True)

    async def play(player: Player) -> None:
        while not watch.over:
            began = time.perf_counter()
            good = await player.operation("heartbeat")()
            watch.note(time.perf_counter() - began, good)
            await asyncio.sleep(BEAT_S)

    beats = [asyncio.ensure_future(play(player)) for player in online]
    await asyncio.sleep(WARM_S)
    began, cpu, logins = time.perf_counter(), cpu_s(pid), []
    for number, player in enumerate(cast):
        await asyncio.sleep(max(0.0, began + number * ARRIVE_S - time.perf_counter()))
        logins.append(asyncio.ensure_future(player.operation("login")()))
    watch.errors += (await asyncio.gather(*logins)).count(False)
    took = time.perf_counter() - began
    watch.over = True
    await asyncio.gather(*beats)
    curve = quantiles_ms(sorted(watch.taken))
    us = 1e6 * (cpu_s(pid) - cpu) / len(cast)
    return Run(len(cast) / took, errors=watch.errors, server_us=us, latency_ms=curve)
