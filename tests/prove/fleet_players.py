"""Players who go on one hunt after another in a fleet, and a counter of the running hunts.

The players are in the network of the host's machine. A player is in a hunt while its game server
answers, and joins the next match when the game server has failed to answer twice.
"""

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field

from svcserver.players import http, requests
from tests.live.fleet_network import METAGAME, enter
from tests.live.swarm_engine import SwarmMachine

HUNT_S = 30
# serves its arguments by HTTP on its port, and ends after HUNT_S
GAME = f"""#!/bin/sh
echo "$@" > /tmp/arguments
trap 'exit 0' TERM
httpd -f -p "$2" -h /tmp &
sleep {HUNT_S} &
wait $!
"""
PAUSE_S = 1.0  # between two requests of a player
REPLY_S = 30.0  # for the reply of the metagame, which holds some requests
GAME_S = 3.0  # for the reply of a game server
MISSES = 2
MEMORY_KB = int(Path("/proc/meminfo").read_text().split()[1])
HUNTS = 7  # hunts that fit into the memory of each machine
HUNT_MB = int(MEMORY_KB / 1024 / (HUNTS + 0.5))
FAILURES = (OSError, TimeoutError, EOFError, ValueError)


async def ask(host: str, port: int, call: requests.Call, token: str, seconds: float) -> http.Reply:
    """Send a request on a new connection."""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            headers = {"Host": host, "Connection": "close"}
            if token:
                headers["Authorization"] = f"Bearer {token}"
            writer.write(http.request(*call, headers))
            parser = http.ReplyReader()
            while True:
                data = await reader.read(65_536)
                if not data:
                    raise EOFError
                if (reply := parser.feed(data)) is not None:
                    return reply
        finally:
            writer.close()


@define(eq=False)
class Hunter:
    """A player; times are those of the monotonic clock."""

    name: str
    token: str = ""
    account: str = ""
    machine: str = ""  # the address of the hunt's machine; empty while the player waits
    hunts: int = 0
    played_at: float = 0.0  # time of the game server's last reply
    waits: list[tuple[float, float]] = field(factory=list)  # end and duration of each wait

    async def call(self, call: requests.Call) -> Any:
        """Send a request to the metagame until it replies; return None if the reply is an error."""
        while True:
            try:
                reply = await ask("127.0.0.1", METAGAME, call, self.token, REPLY_S)
            except FAILURES:  # the metagame restarts
                await asyncio.sleep(PAUSE_S)
            else:
                return reply.json if reply.status == 200 else None

    async def play(self) -> None:
        """Register, and play for ever."""
        key = (await self.call(requests.register(self.name)))["UUK"]
        login = await self.call(requests.log_in(key))
        self.token, self.account = login["access_token"], login["account_id"]
        since = time.monotonic()
        while True:
            host, port = await self.match()
            if await self.hunt(host, port, since):
                since = self.played_at

    async def match(self) -> tuple[str, int]:
        """Join a match, and return the address of its game server."""
        standing = None
        while standing is None or standing["status"] != "IN_PROGRESS":
            if standing is None or standing["status"] == "FAILED":
                await self.call(requests.join("ISLAND", requests.HUNTS[0]))
            await asyncio.sleep(PAUSE_S)
            standing = await self.call(("GET", "/candidate/status", None))
        return standing["serverInfo"]["host"], standing["serverInfo"]["port"]

    async def hunt(self, host: str, port: int, since: float) -> bool:
        """Stay in the hunt while its game server answers; return whether it ever answered."""
        misses = 0
        while misses < MISSES:
            try:
                reply = await ask(host, port, ("GET", "/arguments", None), "", GAME_S)
                is_there = self.account.encode() in reply.body
            except FAILURES:
                is_there = False
            misses = 0 if is_there else misses + 1
            if is_there:
                self.played_at = time.monotonic()
                if not self.machine:
                    self.waits.append((self.played_at, self.played_at - since))
                    self.machine, self.hunts = host, self.hunts + 1
            await asyncio.sleep(PAUSE_S)
        was_there, self.machine = bool(self.machine), ""
        return was_there


@contextmanager
def hunters(namespace: str, count: int) -> Iterator[list[Hunter]]:
    """Let players play in a network; an error in one of them fails the test."""
    players = [Hunter(f"Hunter_{number}") for number in range(count)]
    runs: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = []
    errors: list[BaseException] = []

    async def all_play() -> None:
        task = asyncio.current_task()
        assert task is not None
        runs.append((asyncio.get_running_loop(), task))
        await asyncio.gather(*(player.play() for player in players))

    def work() -> None:
        enter(namespace)
        try:
            asyncio.run(all_play())
        except asyncio.CancelledError:
            return
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield players
    finally:
        for loop, task in runs:  # the list is empty if no player has begun
            loop.call_soon_threadsafe(task.cancel)
        thread.join()
    assert errors == []


@define(eq=False)
class HuntCounter:
    """A counter of the hunts on the machines; a thread updates it twice a second.

    ``starts`` maps each match to the ids of its containers, and each id to the container's machine
    and the time at which it was first seen. ``excess`` lists each machine that ran more hunts than
    fit into its memory, with the kinds of its containers.
    """

    machines: list[SwarmMachine]
    starts: dict[str, dict[str, str]] = field(factory=lambda: defaultdict(dict))
    excess: list[tuple[str, list[str]]] = field(factory=list)
    running: dict[str, int] = field(factory=dict)  # hunts by the machine's address
    over: threading.Event = field(factory=threading.Event)

    def work(self) -> None:
        while not self.over.wait(0.5):
            for machine in self.machines:
                try:
                    containers = machine.entries("containers/json?all=1")
                except (OSError, ValueError):  # the engine is down
                    self.running[machine.address] = 0
                    continue
                self._look(machine, containers)

    def _look(self, machine: SwarmMachine, containers: list[dict[str, Any]]) -> None:
        for container in containers:
            if container["Labels"].get("svc.kind") == "hunt":
                where = f"{machine.address} {time.strftime('%X')}"
                self.starts[container["Labels"]["svc.match"]].setdefault(container["Id"], where)
        kinds = [
            container["Labels"].get("svc.kind", "")
            for container in containers
            if container["State"] == "running"
        ]
        self.running[machine.address] = kinds.count("hunt")
        if kinds.count("hunt") > HUNTS:
            self.excess.append((machine.address, kinds))

    @property
    def restarted(self) -> dict[str, list[str]]:
        """The matches whose hunt was started more than once, with the machine of each start."""
        return {match: list(ids.values()) for match, ids in self.starts.items() if len(ids) > 1}


@contextmanager
def counting(machines: list[SwarmMachine]) -> Iterator[HuntCounter]:
    counter = HuntCounter(machines)
    thread = threading.Thread(target=counter.work)
    thread.start()
    try:
        yield counter
    finally:
        counter.over.set()
        thread.join()
