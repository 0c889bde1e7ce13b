"""The loads on a chat server, and the measured figures."""

import asyncio
import gc
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from attrs import define, field, frozen

from bench.chat_client import PATIENCE_S, Chatter
from bench.chat_servers import PLAYERS, Server
from bench.client import connect, request
from bench.kept import quantiles_ms
from bench.meters import KIB, MIB, cpu_s, memory
from svcserver.players.frames import masked

TOGETHER = 20  # logins at once
LISTENERS = 100
WINDOW = 32  # room messages in flight
FLOOD = 20_000  # stanzas
BREATH_S = 0.0005  # between two GET /svc-status
IDLE, WARM = 500, 20
TALKERS = 8
LONGEST = "\N{DRAGON}" * 2_048  # the longest line in bytes
WARM_UP_S = 15.0
SHOUT_S = 0.04  # between two lines of a talker: a session may send thirty stanzas a second
ROOM = "City-1"
PAD = "x" * 56
LINE = re.compile(rb"B\|(\d+)\|")
MARK = b"B|"


@frozen
class Fan:
    """The figures of a room with a hundred clients that talk for a while."""

    per_second: float  # deliveries
    cpu_s: float  # of the server for 100,000 deliveries
    p99_ms: float
    generator: float  # of its core
    missing: int  # deliveries that never came
    latency_ms: list[float]  # at QUANTILES; empty in a closed loop


@frozen
class LoginRun:
    """The figures of many logins."""

    per_second: float
    cpu_ms: float  # of the server for a login
    generator: float  # of its core


@define
class Deliveries:
    """A counter of the lines that arrive in a room, over all connections."""

    count: int = 0
    taken: list[int] = field(factory=list)  # ns from sending a line to its delivery

    def counter(self, timed: bool, after: Callable[[], None]) -> Callable[[bytes], None]:
        """Return the function that counts the deliveries in the bytes of one connection."""
        rest = b""

        def hear(data: bytes) -> None:
            nonlocal rest
            data = rest + data
            end = 0
            for match in LINE.finditer(data):
                end = match.end()
                self.count += 1
                if timed:
                    self.taken.append(time.perf_counter_ns() - int(match[1]))
            rest = data[max(end, len(data) - 32) :]
            after()

        return hear


async def arrivals(
    server: Server, first: int, count: int, room: Callable[[int], str] | None = None
) -> list[Chatter]:
    """Log in ``count`` clients, several of them concurrently, and let each join its room."""
    turn = asyncio.Semaphore(TOGETHER)
    clients = [Chatter(server.place, server.logins[first + n], n) for n in range(count)]

    async def come(n: int) -> None:
        async with turn:
            await clients[n].arrive()
            if room is not None:
                await clients[n].join(room(n))

    await asyncio.gather(*(come(n) for n in range(count)))
    return clients


async def departure(clients: list[Chatter]) -> None:
    """Disconnect all clients, and wait until the server has noticed."""
    for client in clients:
        client.leave()
    await _within(5.0, asyncio.gather(*(client.left.wait() for client in clients)))
    await asyncio.sleep(0.3)


async def _within(seconds: float, awaited: Awaitable[object]) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(awaited, seconds)


async def logins(server: Server, first: int, count: int) -> LoginRun:
    """Measure logins; each includes the connection, token and session, and joining a room of ten.

    ``first`` is the number of the first account. Each measurement needs accounts that have not
    logged in before, because our chat caches tokens.
    """
    gc.collect()
    cpu, own, began = cpu_s(server.pid), time.process_time(), time.perf_counter()
    clients = await arrivals(server, first, count, lambda n: f"City-L{n // 10}")
    wall, cpu = time.perf_counter() - began, cpu_s(server.pid) - cpu
    own = time.process_time() - own
    await departure(clients)
    return LoginRun(count / wall, 1e3 * cpu / count, own / wall)


@define
class Talk:
    """A room whose clients talk until ``end`` (perf_counter), in a closed loop or at a rate."""

    clients: list[Chatter]
    paced: bool
    end: float
    deliveries: Deliveries = field(factory=Deliveries)
    lines: int = 0
    over: asyncio.Event = field(factory=asyncio.Event)  # time is up and everything was delivered

    @property
    def awaited(self) -> int:
        """Return the number of deliveries that have not yet arrived."""
        return self.lines * len(self.clients) - self.deliveries.count

    def speak(self) -> None:
        """Let the next client send a line."""
        line = f"B|{time.perf_counter_ns()}|{PAD}"
        self.clients[self.lines % len(self.clients)].send_room_line(ROOM, line)
        self.lines += 1

    def more(self) -> None:
        """Handle a delivery: send more lines in a closed loop, or finish when the time is up."""
        if time.perf_counter() >= self.end:
            if self.awaited <= 0:
                self.over.set()
        elif not self.paced:
            while self.awaited < WINDOW * len(self.clients):
                self.speak()

    async def run(self, rate: float) -> None:
        """Talk, then wait for the deliveries that have not yet arrived."""
        began = time.perf_counter()
        self.more()
        while self.paced and time.perf_counter() < self.end:
            self.speak()
            await asyncio.sleep(max(0.0, began + self.lines / rate - time.perf_counter()))
        await asyncio.sleep(max(0.0, self.end - time.perf_counter()))
        self.more()
        await _within(PATIENCE_S, self.over.wait())


async def fan(server: Server, seconds: float, rate: float = 0.0) -> Fan:
    """Talk in a room of a hundred: in a closed loop, or at ``rate`` messages a second."""
    clients = await arrivals(server, 0, LISTENERS)
    for client in clients:
        await client.join(ROOM)
    await asyncio.sleep(0.5)
    gc.collect()
    gc.disable()
    cpu, own, began = cpu_s(server.pid), time.process_time(), time.perf_counter()
    talk = Talk(clients, bool(rate), began + seconds)
    for client in clients:
        client.sink = talk.deliveries.counter(talk.paced, talk.more)
    await talk.run(rate)
    wall, cpu = time.perf_counter() - began, cpu_s(server.pid) - cpu
    own = time.process_time() - own
    gc.enable()
    await departure(clients)
    deliveries = talk.deliveries.count
    taken = sorted(ns / 1e9 for ns in talk.deliveries.taken)
    [p99], curve = quantiles_ms(taken, [0.99]), quantiles_ms(taken) if taken else []
    us = cpu / max(1, deliveries) * 1e5
    return Fan(deliveries / wall, us, p99, own / wall, talk.awaited, curve)


def percentile(values: list[int], part: float) -> float:
    """Return the value below which the given fraction of the values lies; 0 for an empty list."""
    ordered = sorted(values)
    return float(ordered[min(len(ordered) - 1, int(len(ordered) * part))]) if ordered else 0.0


async def idle(server: Server) -> float:
    """Return how many KiB of the server's memory an idle, logged-in connection takes."""
    await departure(await arrivals(server, PLAYERS - WARM - 20, WARM))
    await asyncio.sleep(1.5)
    before = memory(server.pid)
    clients = await arrivals(server, 0, IDLE)
    await asyncio.sleep(2.5)
    grown = memory(server.pid) - before
    assert not any(client.gone for client in clients)
    await departure(clients)
    return grown / KIB / IDLE


async def stalled(server: Server) -> tuple[bool, float]:
    """Return whether the server cuts off a client that stops reading.

    Also return by how many MiB the server's memory grew.
    """
    talkers = await arrivals(server, 0, TALKERS, lambda _: ROOM)
    cut = asyncio.Event()
    reader = Chatter(server.place, server.logins[TALKERS], TALKERS)
    sign = f"{reader.login.account}:".encode()

    def hear(data: bytes) -> None:
        if b"unavailable" in data and sign in data:
            cut.set()

    for talker in talkers:
        talker.sink = hear
    # without a stalled reader, memory grows by some 12 MiB for up to 12 s, and then stays
    await _shout(talkers, asyncio.Event(), WARM_UP_S, lambda: None)
    await reader.arrive(receive_buffer=8 * KIB)
    await reader.join(ROOM)
    assert reader.transport is not None
    reader.transport.pause_reading()
    before, most = memory(server.pid), 0

    def look() -> None:
        nonlocal most
        most = max(most, memory(server.pid) - before)

    await _shout(talkers, cut, PATIENCE_S, look)
    reader.transport.abort()
    await departure(talkers)
    return cut.is_set(), most / MIB


async def _shout(
    talkers: list[Chatter], enough: asyncio.Event, seconds: float, look: Callable[[], None]
) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not enough.is_set():
        for talker in talkers:
            talker.send_room_line(ROOM, LONGEST)
        look()
        await _within(SHOUT_S, enough.wait())


@define
class Flood:
    """The latencies of other clients before and during a flood."""

    idle: list[int] = field(factory=list)  # ns for GET /svc-status, before
    status: list[int] = field(factory=list)  # and during
    pings: list[int] = field(factory=list)


async def flood(server: Server, rounds: int) -> Flood:
    """Let a client send 20,000 lines at once, while other clients ping and request the status."""
    noticed = Flood()
    room = await arrivals(server, 0, LISTENERS, lambda _: ROOM)
    for listener in room:
        listener.sink = lambda data: None
    witness = room.pop()
    for n in range(rounds):
        await _status(server, noticed.idle, until=time.monotonic() + 1.0)
        bad = Chatter(server.place, server.logins[PLAYERS - 3 - n], PLAYERS + n)
        await bad.arrive()
        await bad.join(ROOM)
        await asyncio.sleep(0.5)
        done = asyncio.ensure_future(_pour(bad))
        await asyncio.gather(
            _status(server, noticed.status, done=done), _ping(witness, noticed.pings, done)
        )
    await departure([*room, witness])
    return noticed


async def _pour(bad: Chatter) -> None:
    """Send all lines at once; then wait for the replies, or until the server disconnects."""
    assert bad.transport is not None
    words = bad.line(ROOM, MARK.decode() + PAD)
    bad.transport.write(masked(words.encode()) * FLOOD)
    bad.send('<iq xmlns="jabber:client" type="get" id="last"><ping xmlns="urn:xmpp:ping"/></iq>')
    await bad.answered("last")
    bad.leave()


async def _status(
    server: Server,
    taken: list[int],
    *,
    until: float = 0.0,
    done: asyncio.Future[None] | None = None,
) -> None:
    wire, ask = await connect(server.http), request("GET", "/svc-status")
    while time.monotonic() < until or (done is not None and not done.done()):
        began = time.perf_counter_ns()
        status, _ = await wire.send(ask)
        assert status == 200
        taken.append(time.perf_counter_ns() - began)
        await asyncio.sleep(BREATH_S)
    wire.close()


async def _ping(witness: Chatter, taken: list[int], done: asyncio.Future[None]) -> None:
    ping = '<ping xmlns="urn:xmpp:ping"/>'
    while not done.done():
        number = f"p{len(taken)}"
        began = time.perf_counter_ns()
        witness.send(f'<iq xmlns="jabber:client" type="get" id="{number}">{ping}</iq>')
        await witness.answered(number)
        taken.append(time.perf_counter_ns() - began)
        await asyncio.sleep(0.05)
