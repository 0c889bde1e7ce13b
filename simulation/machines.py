"""The machines of a simulated Docker Swarm: the game servers on them, and their failures."""

from __future__ import annotations

import base64
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from simulation.clock import World
from simulation.gameservers import GameServer, Servers
from simulation.process import Process
from simulation.swarm import FakeSwarm, Json
from svcserver.agent.service import LOST_S
from svcserver.deploy.docker_api import EngineError
from svcserver.deploy.fleet import PERSISTENT
from svcserver.deploy.owner_actions import OwnerActions
from svcserver.deploy.simulator import CommandLine
from svcserver.deploy.swarm import MATCH
from svcserver.kernel.refusals import Refusal

MANAGER = "node1"
MACHINES = ("node1", "node2", "node3")
MACHINE_MB, GAME_SERVER_MB = 2048, 900  # two game servers fit on a machine
STEP_S = 0.25
CALL_S = 0.04  # at most, in each direction
DOWN_S = 12.0  # until the manager notices that a machine does not answer
AGENT_S = 3.0  # until the agent of a cut-off machine has ended its game servers
HUNTS_END_S = 30.0  # the hunts of a lost machine end within this time
STARTS_S = 0.2, 2.0  # from the choice of a machine until the program runs there
STOPS_STEPS = 1, 32  # from SIGTERM until a program has ended; after 10 s it would get SIGKILL
STARTS_ANYWAY = 0.5  # probability that a removal comes too late to prevent a start
START_S = 15.0  # a launch that waited longer was removed
DRAIN_AGAIN_S = 3.0
REMEMBERED = 1_000  # matches


@define(eq=False)
class EngineLine:
    """A stand-in for ``DockerApi``: one deploy server's connection to the manager's engine."""

    swarm: SimSwarm
    reactor: Process
    version: str = "1.41"

    async def call(self, method: str, path: str, *more: Any, **named: Any) -> Any:
        """Carry out a call; if the deploy server dies, nobody gets the reply."""
        delay = partial(self.swarm.world.weather.uniform, 0.001, CALL_S)
        await deferLater(self.reactor, delay())
        reply = await self.swarm.call(method, path, *more, **named)
        await deferLater(self.reactor, delay())
        return reply

    def follow_events(self, filters: Json, changed: Callable[[], object]) -> Deferred[None]:
        stream: Deferred[None] = Deferred()
        self.swarm.streams[stream] = self.reactor, changed
        return stream


@define(eq=False)
class SimSwarm(FakeSwarm):
    """A swarm whose tasks are simulated game servers; it reports broken rules to ``wrong``."""

    world: World = field(kw_only=True)
    servers: Servers = field(kw_only=True)
    address: str = field(kw_only=True)  # of the manager, for players
    machines: dict[str, int] = field(factory=lambda: dict.fromkeys(MACHINES, MACHINE_MB))
    wrong: Callable[[str, str], object] = lambda rule, what: None
    supervisor: Any = None  # of the newest deploy server
    streams: dict[Deferred[None], tuple[Process, Callable[[], object]]] = field(factory=dict)
    containers: dict[str, GameServer] = field(factory=dict)  # by task
    disturbances: int = 0  # starts of the deploy server, and stops of the engine
    _newest: dict[str, GameServer] = field(factory=dict)  # by match
    _cuts: dict[str, int] = field(factory=dict)  # how often each machine was cut off
    _joined: int = 0
    # called once with the machine of the next hunt or tutorial, while that starts
    at_launch: Callable[[str], object] | None = None
    crowded: bool = False  # other programs use the memory of all machines
    excused_until: float = 0.0  # a rare event ended a game server

    def tick(self) -> None:
        """Advance the swarm by one step, and schedule the next step in ``STEP_S`` seconds."""
        if not self.away:
            for task in self.tasks:
                server = self.containers.get(task["ID"])
                is_known = task["NodeID"] not in self.unreachable | self.down
                if server is not None and server.over and is_known:
                    del self.containers[task["ID"]]
                    if task["Status"]["State"] == "running":
                        self.end(task, server.code)
                        self.changed()
            self.step()
        self.world.later(STEP_S, self.tick)

    def changed(self) -> None:
        for stream, (reactor, changed) in list(self.streams.items()):
            if stream.called or reactor.dead:
                del self.streams[stream]
            else:
                reactor.callLater(0.01, changed)

    def _add_task(self, service: Json) -> None:
        super()._add_task(service)
        steps = self.world.weather.randint(*STOPS_STEPS)
        more = {"at": self.world.now, "disturbances": self.disturbances, "steps": steps}
        self.tasks[-1] |= more

    def _place(self, task: Json) -> None:
        if self.crowded:
            return
        super()._place(task)
        node = task["NodeID"]
        if not node:
            return
        weather, takes_s = self.world.weather, self.world.weather.uniform(*STARTS_S)
        task["ready_at"] = self.world.now + takes_s
        if self.at_launch is not None and not task["persistent"] and node != MANAGER:
            self.world.later(weather.uniform(0.0, takes_s), partial(self.at_launch, node))
            self.at_launch = None

    def _start(self, task: Json) -> None:
        """Start the program of a task that is ready, or whose machine is being cut off."""
        if "known" in task or self.world.now >= task["ready_at"]:
            super()._start(task)

    def _stop(self, task: Json) -> None:
        """Stop a task.

        If its machine is about to start the program, the order to stop sometimes comes too late,
        and the program starts first.
        """
        is_starting = task["Status"]["State"] == "preparing" and self.world.now < task["ready_at"]
        if is_starting and self.world.weather.random() < STARTS_ANYWAY:
            super()._start(task)
        else:
            super()._stop(task)

    def _delete(self, table: dict[str, Json], name: str) -> None:
        """Delete a service or secret; first free memory if a task of the service waits for it."""
        if any(task["Status"]["State"] == "pending" for task in self._tasks_of(name)):
            self.make_room()
        super()._delete(table, name)

    def make_room(self) -> None:
        """End the lack of memory (``crowded``), and place the tasks that wait for memory."""
        if self.crowded:
            self.crowded = False
            for task in self.tasks:
                if task["Status"]["State"] == "pending" and task["DesiredState"] == "running":
                    self._place(task)

    # -- game servers ------------------------------------------------------------

    def started(self, task: Json) -> None:
        name, node = task["name"], task["NodeID"]
        if self.servers.fails or name not in self.secrets:
            self.servers.fails = max(0, self.servers.fails - 1)
            self.end(task, error="no such image")
            return
        key = base64.b64decode(self.secrets[name]["Data"]).decode()
        line = CommandLine.parse([key, *task["Spec"]["ContainerSpec"]["Args"][2:]])
        address = self.address if node == MANAGER else node.replace("node", "10.0.0.")
        self._check_start(task)
        server = self.servers.begin(None, line, node, address)
        self.containers[task["ID"]] = server
        match = task["Spec"]["ContainerSpec"]["Labels"][MATCH]
        if match:
            self._check_match(match)
            self._newest[match] = server
            if len(self._newest) > REMEMBERED:
                del self._newest[next(iter(self._newest))]
        self._check_memory(node)
        self.changed()

    def _check_start(self, task: Json) -> None:
        waited = self.world.now - task["at"]
        is_calm = task["disturbances"] == self.disturbances
        if waited > START_S and is_calm and not task["persistent"]:
            self.wrong("a removed launch never starts", f"{task['name']} after {waited:.0f} s")

    def _check_match(self, match: str) -> None:
        before = self._newest.get(match)
        if before is not None:
            self.wrong("a hunt starts once", f"{match} on {before.node} and elsewhere")

    def _check_memory(self, node: str) -> None:
        limits = [
            task["Spec"]["Resources"]["Limits"]["MemoryBytes"]
            for task in self.tasks
            if task["ID"] in self.containers
            and not self.containers[task["ID"]].over
            and self.containers[task["ID"]].node == node
        ]
        if sum(limits) > self.machines[node] * 1024 * 1024:
            self.wrong("memory is not over-committed", f"{len(limits)} game servers on {node}")

    def stopped(self, task: Json) -> None:
        server = self.containers.pop(task["ID"], None)
        if server is None:
            return
        is_excused = self._cuts.get(server.node) or self.world.now < self.excused_until
        if not (server.stays or server.over or is_excused) and server.players:
            self.wrong("a hunt with players runs on", f"{task['name']} on {server.node}")
        server.end(by=signal.SIGTERM)

    def leftovers(self) -> list[str]:
        """Return the services and secrets that are left at the end of a run, except the city's."""
        listed = {
            "services": [service["Spec"]["Name"] for service in self.services.values()],
            "secrets": list(self.secrets),
            "services of the deploy server": list(self.supervisor.engine.services),
        }
        return [f"{what}: {names}" for what, names in listed.items() if names != ["svc-city"]]

    # -- faults ------------------------------------------------------------------

    def on(self, node: str) -> list[GameServer]:
        """Return the game servers that run on a machine, even if the manager cannot reach it."""
        return [
            server
            for server in self.servers.started.values()
            if server.node == node and not server.over
        ]

    def cut_off(self, node: str, *, power: bool = True) -> None:
        """Cut off a machine until ``recover``; without ``power``, its game servers end at once."""
        if power:
            self.start_unseen(node)
        self.unreachable.add(node)
        self._cuts[node] = cut = self._cuts.get(node, 0) + 1
        for server in self.on(node):
            server.cut_off = True
            if not power:
                server.end(by=signal.SIGKILL)

        def still(act: Callable[[], object]) -> Callable[[], object]:
            return lambda: node in self.unreachable and self._cuts[node] == cut and act()

        self.world.later(DOWN_S, still(partial(self.lose, node)))
        self.world.later(LOST_S + AGENT_S, still(partial(self._stop_all, node)))
        check = partial(self._check_lost, node, self.disturbances)
        self.world.later(HUNTS_END_S, still(check))

    def _stop_all(self, node: str) -> None:
        """End the game servers of a cut-off machine, as its agent does."""
        for server in self.on(node):
            server.end(by=signal.SIGTERM)

    def _check_lost(self, node: str, disturbances: int) -> None:
        hunts = [
            server.launch.match_id
            for server in self.supervisor.fleet.servers.values()
            if server.node == node and server.launch.kind not in PERSISTENT
        ]
        if hunts and disturbances == self.disturbances:
            self.wrong("the hunts of a lost machine end", f"{hunts} on {node}")

    def recover(self, node: str) -> None:
        super().recover(node)
        for server in self.on(node):
            server.cut_off = False

    def join(self) -> str:
        """Let a machine join; return its name."""
        self._joined += 1
        node = f"node{4 + self._joined % 200}"
        self.machines[node] = MACHINE_MB
        self.down.discard(node)
        self.changed()
        return node

    def remove(self, node: str) -> None:
        super().remove(node)
        self.unreachable.discard(node)
        self._cuts[node] = self._cuts.get(node, 0) + 1
        self.world.later(LOST_S + AGENT_S, partial(self._stop_all, node))

    def _move_from(self, node: str) -> None:
        if node not in self.down and any(not server.stays for server in self.on(node)):
            self.wrong("a machine is drained after its hunts", f"hunts run on {node}")
        super()._move_from(node)

    def drain(self, node: str, *, on: bool) -> None:
        """Drain a machine as the owner does, or end its drain.

        The end of a drain is requested again and again until the machine is active again.
        """
        is_active = self.availability.get(node, "active") == "active"
        if node not in self.machines or is_active != on:
            return
        act = OwnerActions(self.supervisor).apply_action("drain" if on else "undrain", node, "")
        Deferred.fromCoroutine(act).addErrback(lambda why: why.trap(Refusal))
        if not on:
            self.world.later(DRAIN_AGAIN_S, partial(self.drain, node, on=False))

    def stop_hunt(self) -> None:
        """Stop the hunt with the highest port, as the owner does."""
        servers = self.supervisor.fleet.servers.values()
        hunts = [server for server in servers if server.launch.kind not in PERSISTENT]
        if not hunts or self.supervisor.clock.dead:
            return
        hunt = max(hunts, key=lambda server: server.port)
        self.excused_until = self.world.now + HUNTS_END_S
        act = OwnerActions(self.supervisor).apply_action("stop", hunt.id, "")
        Deferred.fromCoroutine(act).addErrback(lambda why: why.trap(Refusal))

    def stop_engine(self) -> None:
        """Stop the manager's engine, and with it the game servers on its machine."""
        self.away = True
        self.disturbances += 1
        for server in self.on(MANAGER):
            server.end(by=signal.SIGKILL)
        for stream, (reactor, _) in self.streams.items():
            if not (stream.called or reactor.dead):
                stream.errback(EngineError(0, "stopped"))
        self.streams.clear()

    def start_engine(self) -> None:
        self.away = False
