"""The measurements of ``bench.scale``: live state, requests, chat and the gateway."""

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvloop
from attrs import frozen

from bench import edge_servers
from bench.chat_client import Chatter, Login, Place
from bench.chat_runs import Talk, arrivals, departure, percentile
from bench.chat_servers import AT_ONCE, FAST, Server
from bench.heads import varied
from bench.meters import cpu_s, wrk
from bench.players import Player
from bench.postgres import Engine as Database
from bench.postgres import engine as database
from bench.runs import Run, measure
from bench.servers import SERVER_CORE, free_port, metagame
from svcserver.ctl.keys import new_signing_keys
from tests.support.valkey import Instance

ROOM = "City-1"
CALM_RATE = 30.0  # lines a second
PLAYERS = 16  # of a worker: what they ask at once shares round trips and commits
CONNECTIONS = 50


@frozen
class Workers:
    """Several metagames that share one PostgreSQL and one live-state engine."""

    ports: list[int]
    pids: list[int]
    chats: list[int]  # ports
    database: Database
    engine: Instance

    @property
    def engine_pid(self) -> int:
        """Return the process id of the engine."""
        assert self.engine.process is not None
        return self.engine.process.pid


@contextmanager
def workers(folder: Path, count: int, cores: Sequence[int] = (SERVER_CORE,)) -> Iterator[Workers]:
    """Start ``count`` workers, each with a chat, and distribute them over these cores."""
    keys, engine = new_signing_keys(), Instance.make()
    engine.start()
    with ExitStack() as stack:
        stack.callback(engine.end)
        beside = stack.enter_context(database())
        chats = [free_port() for _ in range(count)]
        common = {
            "DATABASE_URL": beside.instance.database(),
            "LIVE_URL": engine.url,
            "AUTH_SIGNING_PRIVKEY_B64": keys.private,
            "AUTH_SIGNING_PUBKEY_B64": keys.public,
            "CHAT": "1",
            "CHAT_MESSAGE_RATE": FAST,
        }
        results = []
        for number, chat in enumerate(chats):
            more = {"METRICS_PORT": str(beside.metrics_port)} if number == 0 else {}
            environ = {**common, "CHAT_PORT": str(chat), **more}
            core = cores[number % len(cores)]
            made = metagame(folder, f"worker{number}", core, **environ)
            results.append(stack.enter_context(made))
        ports, pids = [port for port, _ in results], [pid for _, pid in results]
        yield Workers(ports, pids, chats, beside, engine)


# -- requests -------------------------------------------------------------------


@frozen
class Mixed:
    """The figures of a mix of players' requests: rate, failures, CPU microseconds per request."""

    per_second: float
    workers_us: float
    database_us: float
    engine_us: float
    failed: int

    @property
    def per_cpu(self) -> float:
        """Return the requests per CPU second of the workers."""
        return 1e6 / self.workers_us


def mixed(some: Workers, count: int, seconds: float) -> Mixed:
    """Run players on the first ``count`` workers in a closed loop."""
    ports, pids = some.ports[:count], tuple(some.pids[:count])
    engine = cpu_s(some.engine_pid)
    name = f"{count} workers"
    run = some.database.watch(name, seconds, lambda: uvloop.run(_mix(ports, pids, seconds)))
    requests = max(1.0, run.per_second * (seconds + 0.5))
    engine_us = 1e6 * (cpu_s(some.engine_pid) - engine) / requests
    missing = run.errors + run.missing
    return Mixed(run.per_second, run.server_us, some.database.us[name][-1], engine_us, missing)


async def _mix(ports: Sequence[int], pids: tuple[int, ...], seconds: float) -> Run:
    cast = [Player(ports[n % len(ports)], random.Random(n)) for n in range(PLAYERS * len(ports))]
    await asyncio.gather(*(player.arrive() for player in cast))
    run = await measure([player.operation("mix") for player in cast], pids, seconds)
    run.missing = sum(await asyncio.gather(*(player.missing() for player in cast)))
    for player in cast:
        player.leave()
    return run


# -- the chat -------------------------------------------------------------------


@frozen
class RoomRun:
    """The figures of one run in which clients talk in a room."""

    per_cpu: float  # deliveries for each second that the processes of the chat computed
    engine_us: float  # of the engine for one line
    p99_ms: float
    missing: int  # deliveries that never came
    lines: int


def first_servers(some: Workers, known: list[Login], count: int) -> list[Server]:
    """Return the first ``count`` workers as chat servers."""
    return [
        Server("ours", some.pids[n], Place(some.chats[n], "//", "svc.local"), known, some.ports[n])
        for n in range(count)
    ]


async def talk_in_a_room(
    servers: list[Server], listeners: int, seconds: float, rate: float = 0.0, engine: int = 0
) -> RoomRun:
    """Talk in a room of all these servers: in a closed loop, or at ``rate`` lines a second."""
    each, clients = listeners // len(servers), list[Chatter]()
    for number, server in enumerate(servers):
        clients += await arrivals(server, number * each, each)
    for first in range(0, listeners, AT_ONCE):
        await asyncio.gather(*(client.join(ROOM) for client in clients[first : first + AT_ONCE]))
    await asyncio.sleep(1.0)
    pids = [client.pid for client in servers]

    def used() -> float:
        return sum(map(cpu_s, pids))

    theirs, ours, began = cpu_s(engine) if engine else 0.0, used(), time.perf_counter()
    talk = Talk(clients, bool(rate), began + seconds)
    for client in clients:
        client.sink = talk.deliveries.counter(talk.paced, talk.more)
    await talk.run(rate)
    ours, theirs = used() - ours, (cpu_s(engine) if engine else 0.0) - theirs
    await departure(clients)
    p99 = percentile(talk.deliveries.taken, 0.99) / 1e6
    per_line = 1e6 * theirs / max(1, talk.lines)
    return RoomRun(talk.deliveries.count / max(ours, 0.01), per_line, p99, talk.awaited, talk.lines)


# -- the gateway ------------------------------------------------------------------


def gateway_us(folder: Path, seconds: float) -> float:
    """Return the gateway's CPU microseconds per request; each player has other header fields."""
    with ExitStack() as stack:
        behind = stack.enter_context(edge_servers.upstream(folder, edge_servers.prepare(folder)))
        server = stack.enter_context(edge_servers.gateway("ours", folder, behind))
        url = f"https://127.0.0.1:{server.port}/svc-status"
        script = varied(folder, server.port)
        run: Any = wrk(server.pid, url, CONNECTIONS, seconds, script=script)
    return 1e6 / float(run.per_cpu)
