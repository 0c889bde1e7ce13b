"""The engine that runs game servers as services of a Docker Swarm, on any of its machines.

The swarm never restarts a hunt or tutorial. It restarts the city and the dojo, on another machine
if necessary. The launch key is a secret of the swarm.

Docker's events only trigger a listing of services, tasks and machines. All decisions depend on the
listings alone, so a lost event or a restart of the deploy server does no harm.

Hunts do not use Docker's mode ``replicated-job``, because deleting such a job does not stop its
tasks.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from ipaddress import IPv4Address
from itertools import chain
from typing import Any

from attrs import define, evolve, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.deploy.docker_api import DockerApi, EngineError
from svcserver.deploy.fleet import PERSISTENT, GameServer, MachineRecord, NoCapacity
from svcserver.deploy.hunts import GameServerKind, Launch
from svcserver.deploy.launch_history import EndedMatches
from svcserver.deploy.orders import Order
from svcserver.deploy.process import GameProcess, describe_exit
from svcserver.deploy.saved_servers import fields_of, server_from
from svcserver.kernel import json
from svcserver.kernel.refusals import Missing, Unavailable
from svcserver.kernel.throttle import Throttle

log = Logger()

NODE_S = 5.0  # a launch without a machine is removed after this time
START_S = 30.0  # an adopted hunt that has not started by then is removed
BUSY_S = 0.25  # between two listings while a game server starts or stops
IDLE_S = 5.0
RETRY_S = 1.0  # after an error
WAITS_S = 20.0  # a match that lacked room is launched again within this time, or not at all
MOST_WAITING = 1_000
STALE_S = 15.0  # since the last listing; then the state of each machine is unknown
HELD_S = 60.0  # the agent of a lost machine ends the game servers there within this time
LATE_S = 30.0  # an engine may carry out a launch this long after it failed to answer
AVOIDED_S = 60.0  # after a machine rejects a hunt, it gets no hunt for this time
LABELS_S = 3600.0  # between two warnings about a machine's label
STOP_S = 10.0  # from SIGTERM to SIGKILL
LOG_DRIVER = {"Name": "json-file", "Options": {"max-size": "1m", "max-file": "2"}}
HOST, KIND, MATCH, SERVER = "svc.host", "svc.kind", "svc.match", "svc.server"  # labels
PORT = "svc.port"  # the label of a container
ADDRESS = "svc.address"  # the label of a machine with its public address
TRUSTED = "node.labels.svc.trusted==1"  # the constraint of GAMESERVER_TRUSTED
DRAIN = "svc.drain"  # the label of a paused machine that is drained when its hunts have ended
KEY_FILE = "svc-key"
KEY_WORD, ADDRESS_WORD = "SVC_KEY", "SVC_ADDRESS"  # the entry point replaces them
MOST_PROCESSES = 4096  # with threads, of a container; a game under Wine has about a hundred
RESERVED_CORES = 0.25  # part of the limit
MB = 1024 * 1024
MACHINE_LOST = "its machine is lost"
LONGEST_ERROR = 300
LONGEST_NAME = 64
FAILED = frozenset(("complete", "failed", "rejected"))  # ended by themselves
ENDED = FAILED | {"shutdown", "orphaned", "remove"}
WAITING = frozenset(("new", "pending"))  # no machine is chosen yet
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)  # errors of malformed replies
EVENTS = {
    "type": ["service", "node", "container"],
    "event": ["create", "update", "remove", "start", "die"],
}


class State(Enum):
    """The state of a game server, derived from the tasks of its Docker service."""

    WAITING = 1  # no machine has enough memory
    STARTING = 2
    RUNNING = 3
    ENDED = 4


@frozen
class Task:
    """One attempt to run the container of a service; Docker calls it a task."""

    state: str
    desired: str
    node: str
    code: int
    error: str
    created: str
    port: int = 0  # 0 if unknown
    kind: str = ""
    id: str = ""

    @property
    def is_hunt(self) -> bool:
        """True if the task is neither a city nor a dojo, and its program has not ended."""
        return self.kind not in PERSISTENT and self.state not in ENDED

    @property
    def has_port(self) -> bool:
        """True if the task's hunt may still be using its port.

        That is possible even on a machine that left the swarm.
        """
        return self.is_hunt or (self.state == "orphaned" and self.kind not in PERSISTENT)

    @classmethod
    def parse(cls, sent: Any) -> Task:
        status, labels = sent["Status"], sent["Spec"]["ContainerSpec"].get("Labels") or {}
        container = status.get("ContainerStatus") or {}
        return cls(
            str(status["State"]),
            str(sent["DesiredState"]),
            str(sent.get("NodeID", "")),
            int(container.get("ExitCode") or 0),
            str(status.get("Err", ""))[:LONGEST_ERROR],
            str(sent["CreatedAt"]).rstrip("Z"),  # so that times with fewer digits sort correctly
            int(labels[PORT]) if labels.get(PORT, "").isdecimal() else 0,
            str(labels.get(KIND, "")),
            str(sent["ID"]),
        )


@frozen
class Machines:
    """The machines of the swarm: the addresses of all machines, and the ids of lost machines."""

    addresses: Mapping[str, str] = field(factory=dict)
    down: frozenset[str] = frozenset()
    records: tuple[MachineRecord, ...] = ()  # without their game servers
    nano_cpus: Mapping[str, int] = field(factory=dict)

    def has_lost(self, node: str) -> bool:
        """Return whether the machine is lost, or was removed from the swarm."""
        return bool(node) and (node in self.down or node not in self.addresses)

    @classmethod
    def parse(cls, nodes: Iterable[Any], own: str = "", own_address: str = "") -> Machines:
        """Read the reply to ``GET /nodes``.

        ``own`` is the id of the deploy server's machine, and ``own_address`` is its public address.
        The label ``svc.address`` of a machine takes precedence over other addresses.
        """
        addresses, down, records, nano_cpus = {}, set(), [], {}
        for node in nodes:
            node_id, status = str(node["ID"]), node.get("Status", {})
            manager = str((node.get("ManagerStatus") or {}).get("Addr", ""))
            candidates = (
                str((node.get("Spec", {}).get("Labels") or {}).get(ADDRESS, "")),
                own_address if node_id == own else "",
                str(status.get("Addr", "")),
                manager.rpartition(":")[0],
            )
            addresses[node_id] = next(filter(_is_address, candidates), "")
            if status.get("State") == "down":
                down.add(node_id)
            records.append(_record(node, addresses[node_id], own=node_id == own))
            nano_cpus[node_id] = int(_resources(node).get("NanoCPUs", 0))
        return cls(addresses, frozenset(down), tuple(records), nano_cpus)


def _resources(node: Any) -> Any:
    return (node.get("Description") or {}).get("Resources") or {}


def _record(node: Any, address: str, *, own: bool) -> MachineRecord:
    description, availability = node.get("Description") or {}, node["Spec"].get("Availability")
    state = str(node["Status"].get("State", "unknown"))
    if state == "ready":
        state = {"pause": "draining", "drain": "drained"}.get(availability, state)
    return {
        "id": str(node["ID"]),
        "name": str(description.get("Hostname", ""))[:LONGEST_NAME],
        "address": address,
        "state": state,
        "memoryBytes": int(_resources(node).get("MemoryBytes", 0)),
        "reservedBytes": 0,
        "hunts": 0,
        "players": 0,
        "version": str((description.get("Engine") or {}).get("EngineVersion", ""))[:LONGEST_NAME],
        "room": 0,
        "own": own,
        "reached": None,
    }


def _is_address(text: str) -> bool:
    try:
        return not IPv4Address(text).is_unspecified
    except ValueError:
        return False


@frozen
class Observation:
    """A game server's state, machine, exit code and error."""

    state: State
    node: str = ""
    code: int = 0
    error: str = ""


def observe(kind: GameServerKind, tasks: Iterable[Task], machines: Machines) -> Observation:
    """Return the state of a game server from the tasks of its service.

    A hunt has ended when its newest task has ended or its machine is lost. For a city or dojo, the
    swarm then starts another task.
    """
    ordered = sorted(tasks, key=lambda task: task.created)
    if not ordered:
        return Observation(State.WAITING)
    newest = ordered[-1]
    if machines.has_lost(newest.node) and newest.state not in ENDED:
        if kind in PERSISTENT:
            return Observation(State.STARTING, error=MACHINE_LOST)
        return Observation(State.ENDED, newest.node, 0, MACHINE_LOST)
    if newest.state in ENDED:
        return Observation(State.ENDED, newest.node, newest.code, newest.error)
    if newest.state == "running":
        return Observation(State.RUNNING, newest.node)
    waits = newest.state in WAITING or not newest.node
    return Observation(State.WAITING if waits else State.STARTING, newest.node, error=newest.error)


def is_over(task: Task, machines: Machines) -> bool:
    """Return whether the task of a deleted service neither runs now nor will run later."""
    return task.state in ENDED or machines.has_lost(task.node)


class ServiceExit(Exception):
    """The reason for the end of a service: its exit code, or a signal."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.exitCode = code
        self.signal = code - 128 if code > 128 else None


@define(eq=False)
class SwarmService:
    """The Docker service that runs a game server; ``process`` uses it as a Twisted transport."""

    wake: Callable[[], None]
    name: str
    server: GameServer
    process: GameProcess | None  # None if the service is only removed
    pid: int = 0
    service_id: str = ""  # empty until a listing shows it
    exists: bool = False  # the engine has created it
    waiting_since: float = 0.0
    launching: bool = True
    removing: bool = False
    failure: Exception | None = None  # why the launch failed
    may_appear_until: float = 0.0  # the engine may still carry out the launch
    node: str = ""
    code: int = 0
    recorded: str = ""  # creation time of the last task whose end is in the history
    _is_reported: bool = field(default=False, init=False)

    @property
    def is_busy(self) -> bool:
        """True while the service starts or stops."""
        return self.launching or self.removing

    def signalProcess(self, how: str) -> None:
        """Remove the service; Docker sends SIGTERM, and SIGKILL after ``STOP_S``."""
        if not self.removing:
            self.code = 128 + (9 if how == "KILL" else 15)
            self.removing = True
            self.wake()

    def loseConnection(self) -> None:
        """Do nothing: there is no connection to close."""

    def fail(self, error: Exception) -> None:
        """Remove the service because of ``error``; its launch then fails with this error."""
        self.failure, self.removing = self.failure or error, True
        self.wake()

    def run(self, node: str, address: str) -> None:
        """Record the machine on which the game server runs, or "" if no machine runs it now."""
        self.launching = self.launching and not node
        if self.process is None or node == self.node:
            return
        self.node = node
        self.process.placed(address, node)
        if node:
            self.process.end_exec()

    def record_ends(self, tasks: Iterable[Task]) -> None:
        """Record the end of each program that the swarm has already replaced with a new one."""
        for task in sorted(tasks, key=lambda task: task.created):
            if task.state in FAILED and task.created > self.recorded:
                self.recorded = task.created
                if self.process is not None:
                    how = describe_exit(ServiceExit(task.code))
                    self.process.restarted(how, task.error)

    def end(self, code: int, reason: str = "") -> None:
        """Report the end of the game server once; a launch that is in progress fails."""
        if self._is_reported or self.process is None:
            return
        if self.launching:
            self.failure = self.failure or OSError(reason or "it exited before it was ready")
        self._is_reported, self.launching = True, False
        self.process.reason = self.process.reason or reason
        self.process.end_exec(self.failure)
        failure = Failure(ServiceExit(code))
        self.process.processExited(failure)
        self.process.processEnded(failure)


@frozen
class WaitingMatch:
    """A match whose launch failed at least once because no machine had room."""

    since: float
    refused_at: float  # the last time
    trusted: bool  # it needs a trusted machine


@define(eq=False)
class SwarmEngine:
    """The engine that starts services; ``host`` identifies this deploy server in service labels.

    ``memory_mb`` returns the memory that is reserved for a kind of game server; the server cannot
    use more. ``cpus`` is the limit of CPU cores; a quarter of this limit is reserved. ``adopt``
    returns the process of a game server that an earlier deploy server started, or None if
    ``Fleet.adopt`` refuses the game server.
    """

    clock: Any
    api: DockerApi
    host: str
    image: str
    my_ip: str
    memory_mb: Callable[[GameServerKind], int]
    cpus: float = 1.0
    trusted: frozenset[str] = frozenset()  # kinds and hunts for trusted machines only
    ended: EndedMatches = field(factory=EndedMatches)
    adopt: Callable[[GameServer], GameProcess | None] = lambda server: None
    services: dict[str, SwarmService] = field(factory=dict, init=False)  # by name
    _machines: Machines = field(factory=Machines, init=False)
    # hunts on lost machines by task: since when, and the port
    _lost_services: dict[str, tuple[float, int]] = field(factory=dict, init=False)
    _avoided: dict[str, float] = field(factory=dict, init=False)  # machine: end of the time
    _waiting: dict[str, WaitingMatch] = field(factory=dict, init=False)  # by match id
    _labels: Throttle = field(factory=lambda: Throttle(LABELS_S), init=False)
    _node: str = field(default="", init=False)  # the id of the engine's own machine
    _is_listed: bool = field(default=False, init=False)
    _listed_at: float = field(default=0.0, init=False)
    _timer: Any = field(default=None, init=False)
    _is_looking: bool = field(default=False, init=False)
    _look_again: bool = field(default=False, init=False)
    _next_look: float = field(default=0.0, init=False)
    _following: Any = field(default=None, init=False)
    _began: list[Deferred[None]] = field(factory=list, init=False)
    _warnings: Throttle = field(factory=Throttle, init=False)
    _stopped: bool = field(default=False, init=False)

    def begin(self) -> Deferred[None]:
        """Adopt the services that already run; the Deferred fires after the first listing."""
        began: Deferred[None] = Deferred()
        self._began.append(began)
        self.wake()
        self._following = Deferred.fromCoroutine(self._follow()).addErrback(
            lambda why: why.trap(CancelledError)
        )
        return began

    def stop(self) -> None:
        """Stop watching the swarm; the services keep running."""
        self._stopped = True
        if self._following is not None:
            self._following.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def start(self, process: GameProcess, order: Order) -> int:
        """Begin to create the service of a launch; return 0, because there is no pid."""
        if not self._is_listed:
            raise NoCapacity("ports")  # an earlier run may have started this game server
        match = order.launch.match_id
        kind = order.launch.kind
        if match in self.ended:
            raise OSError("the hunt of this match may already have started or ended")
        name = f"svc-{kind.value}" if kind in PERSISTENT else f"svc-{match or order.server_id}"
        if name in self.services:
            raise NoCapacity("ports")  # its predecessor is being removed
        if kind not in PERSISTENT and self._is_room_for_others(order.launch):
            self._note_waiting(order.launch)
            raise NoCapacity("memory")
        memory = self.memory_mb(kind) * MB
        process.is_zombie = lambda pid: False
        service = SwarmService(self.wake, name, order.server(0), process)
        nobody: Any = None  # no process group
        process.attach(service, nobody)
        process.begin_exec()
        self.services[name] = service
        create = Deferred.fromCoroutine(self._create(service, order, memory))
        create.addErrback(lambda why: log.failure("a launch failed unexpectedly", why))
        return 0

    async def _create(self, service: SwarmService, order: Order, memory: int) -> None:
        data = base64.b64encode(order.key.encode()).decode()
        labels = {HOST: self.host}
        try:
            secret = {"Name": service.name, "Labels": labels, "Data": data}
            made = await self.api.call("POST", "/secrets/create", secret)
            body = self._definition(service, order, memory, str(made["ID"]))
            await self.api.call("POST", "/services/create", body)
        except (EngineError, *UNREADABLE) as error:
            service.fail(OSError(f"the container engine refused the launch: {error}"))
            if not getattr(error, "status", 0):
                service.may_appear_until = self.clock.seconds() + LATE_S
        service.waiting_since = self.clock.seconds()
        service.exists = True  # perhaps even after an error, such as a lost reply
        self.wake()

    def _is_room_for_others(self, launch: Launch) -> bool:
        """Return whether matches that have waited longer than ``launch`` need all the free room."""
        begin, trusted = self.clock.seconds() - WAITS_S, self._needs_trust(launch)
        self._waiting = {
            match: entry for match, entry in self._waiting.items() if entry.refused_at > begin
        }
        launching = {service.server.launch.match_id for service in self.services.values()}
        own = self._waiting.get(launch.match_id)
        longer = [
            match
            for match, entry in self._waiting.items()
            if match not in launching
            and entry.trusted == trusted
            and (own is None or entry.since < own.since)
        ]
        if not longer:
            return False
        placing = sum(not (service.node or service.removing) for service in self.services.values())
        # without room, a launch waits as usual, so that it starts as soon as a machine joins
        return 0 < sum(record["room"] for record in self.machines()) - placing <= len(longer)

    def _note_waiting(self, launch: Launch) -> None:
        now, match = self.clock.seconds(), launch.match_id
        known = self._waiting.get(match)
        if match and (known is not None or len(self._waiting) < MOST_WAITING):
            since = now if known is None else known.since
            self._waiting[match] = WaitingMatch(since, now, self._needs_trust(launch))

    def uses(self, port: int) -> bool:
        """Return whether a game server may still be using the port.

        A game server keeps its port until its service is removed completely. If its machine is
        lost, the port counts as used for ``HELD_S`` seconds.
        """
        begin = self.clock.seconds() - HELD_S
        if any(since > begin and held == port for since, held in self._lost_services.values()):
            return True
        return any(service.server.port == port for service in self.services.values())

    def _definition(
        self, service: SwarmService, order: Order, memory: int, secret: str
    ) -> dict[str, Any]:
        kind = order.launch.kind
        labels = {HOST: self.host, KIND: kind.value, MATCH: order.launch.match_id}
        key_file = {"Name": KEY_FILE, "UID": "0", "GID": "0", "Mode": 0o444}
        addresses = [
            f"SVC_ADDRESS_{node}={address}" for node, address in self._machines.addresses.items()
        ]
        command = order.program.command(order.launch, order.port, ADDRESS_WORD, KEY_WORD)
        persistent = kind in PERSISTENT
        return {
            "Name": service.name,
            "Labels": {**labels, SERVER: json.dump(fields_of(service.server)).decode()},
            "Mode": {"Replicated": {"Replicas": 1}},
            "TaskTemplate": {
                "ContainerSpec": {
                    "Image": self.image,
                    "Args": command,
                    "Env": ["SVC_NODE={{.Node.ID}}", *addresses],
                    "Labels": {**labels, PORT: str(order.port)},
                    "StopGracePeriod": int(STOP_S * 1e9),
                    "CapabilityDrop": ["ALL"],
                    "Secrets": [{"SecretID": secret, "SecretName": service.name, "File": key_file}],
                },
                "RestartPolicy": {"Condition": "any" if persistent else "none"},
                "Placement": {"Constraints": self._constraints(order.launch)},
                "Resources": {
                    "Reservations": {
                        "MemoryBytes": memory,
                        "NanoCPUs": self._reserved_cpus,
                    },
                    "Limits": {
                        "MemoryBytes": memory,
                        "NanoCPUs": int(self.cpus * 1e9),
                        "Pids": MOST_PROCESSES,
                    },
                },
                "Networks": [{"Target": "host"}],
                "LogDriver": LOG_DRIVER,  # by default, the output could fill the machine's disk
            },
        }

    def _constraints(self, launch: Launch) -> list[str]:
        trusted = [TRUSTED] if self._needs_trust(launch) else []
        ready = {record["id"] for record in self._machines.records if record["state"] == "ready"}
        if launch.kind in PERSISTENT or ready <= self._avoided.keys():
            return trusted  # a city would avoid machines for months; a hunt may need one
        return [*trusted, *(f"node.id!={node}" for node in self._avoided)]

    def _needs_trust(self, launch: Launch) -> bool:
        names = launch.kind.value, launch.hunt_id, launch.matchmaker_hunt
        return any(name in self.trusted for name in names)

    async def _follow(self) -> None:
        while not self._stopped:
            try:
                if self.api.version:
                    await self.api.follow_events(EVENTS, self.wake)
                    self.wake()  # finds changes before the next stream begins
            except EngineError as error:
                if self._stopped:
                    return
                self._warn(error)
            await deferLater(self.clock, RETRY_S)

    def wake(self) -> None:
        """Schedule a listing of the swarm, because something may have changed."""
        if self._is_looking:
            self._look_again = True
        else:
            self._schedule(max(0.0, self._next_look - self.clock.seconds()))

    def _schedule(self, delay: float) -> None:
        if self._stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.clock.callLater(delay, self._start_listing)

    def _start_listing(self) -> None:
        self._timer, self._is_looking, self._look_again = None, True, False
        self._next_look = self.clock.seconds() + BUSY_S
        Deferred.fromCoroutine(self._list()).addCallbacks(self._listed, self._not_listed)

    def _listed(self, result: None) -> None:
        self._is_looking, self._listed_at = False, self.clock.seconds()
        busy = self._look_again or any(service.is_busy for service in self.services.values())
        self._schedule(BUSY_S if busy else IDLE_S)

    def _not_listed(self, failure: Failure) -> None:
        self._is_looking = False
        self._node = ""  # the engine may have joined another swarm
        if failure.check(EngineError):
            self._warn(failure.value)
        elif self._warnings.due("", self.clock.seconds()):
            log.failure("a reply of the container engine is not understood", failure)
        self._schedule(RETRY_S)

    def _warn(self, error: Any) -> None:
        if self._warnings.due("", self.clock.seconds()):
            log.warn("a request to the container engine failed; trying again: {why}", why=error)

    async def _list(self) -> None:
        """List the services and tasks of the swarm, and act on the changes."""
        created = {name for name, service in self.services.items() if service.exists}
        label = {"label": [f"{HOST}={self.host}"]}
        if not self._node:
            info = await self.api.call("GET", "/info")
            swarm = info.get("Swarm") or {}
            if not swarm.get("ControlAvailable"):
                text = "this machine is not a manager of a swarm. Run svcctl fleet init"
                raise EngineError(0, text)
            self._node = str(swarm["NodeID"])
        nodes = await self.api.call("GET", "/nodes")
        self._machines = Machines.parse(nodes, self._node, self.my_ip)
        listed = {sent["Spec"]["Name"]: sent for sent in await self._get("/services", label)}
        tasks: dict[str, list[Task]] = {}
        for sent in await self._get("/tasks", label):
            tasks.setdefault(str(sent["ServiceID"]), []).append(Task.parse(sent))
        every = list(chain.from_iterable(tasks.values()))
        self._check_machines(nodes, every)
        self._note_lost(every)
        await self._drain(nodes, {task.node for task in every if task.is_hunt})
        if not self._is_listed:
            await self._remove_secrets(label, listed)
        for name, sent in listed.items():
            if name not in self.services:
                await self._adopt(name, sent, tasks.get(sent["ID"], []))
                created.add(name)
        for name in [name for name in self.services if name in created]:
            sent = listed.get(name)
            service = self.services[name]
            if sent is not None:
                service.service_id = str(sent["ID"])
            await self._update(service, sent is not None, tasks.get(service.service_id, []))
        self._is_listed = True
        began, self._began = self._began, []
        for waiting in began:
            waiting.callback(None)

    def _check_machines(self, nodes: Iterable[Any], tasks: Iterable[Task]) -> None:
        """Record which machines reject hunts; warn of machines with an invalid address label."""
        now = self.clock.seconds()
        self._avoided = {node: until for node, until in self._avoided.items() if until > now}
        for task in tasks:
            if task.state == "rejected" and task.kind not in PERSISTENT:
                self._avoided.setdefault(task.node, now + AVOIDED_S)
        for node in nodes:
            label = str((node["Spec"].get("Labels") or {}).get(ADDRESS, ""))
            if label and not _is_address(label) and self._labels.due(node["ID"], now):
                log.warn(
                    "the label {label} of machine {node} is ignored, because the label is not an "
                    "IPv4 address: {text!r}. Until you correct the label, players connect to the "
                    "machine's address in the swarm. If the deploy server runs on this machine, "
                    "players connect to the address in MY_IP (deploy.env) instead.",
                    label=ADDRESS,
                    node=node["ID"],
                    text=label[:LONGEST_NAME],
                )

    def _note_lost(self, tasks: Iterable[Task]) -> None:
        """Record the hunts on lost machines, and when each loss was noticed."""
        now = self.clock.seconds()
        current = {
            task.id: (now, task.port)
            for task in tasks
            if task.has_port and self._machines.has_lost(task.node)
        }
        self._lost_services = current | {
            task: (since, port)
            for task, (since, port) in self._lost_services.items()
            if task in current or now - since < HELD_S
        }

    def machines(self) -> list[MachineRecord]:
        """Return the machines, with the game servers that run there."""
        is_stale = self.clock.seconds() - self._listed_at > STALE_S
        return [
            self._machine({**record, "state": "unknown" if is_stale else record["state"]})
            for record in self._machines.records
        ]

    def _machine(self, record: MachineRecord) -> MachineRecord:
        servers = [
            service.server for service in self.services.values() if service.node == record["id"]
        ]
        hunts = [server.launch for server in servers if server.launch.kind not in PERSISTENT]
        reserved = sum(self.memory_mb(server.launch.kind) * MB for server in servers)
        free = record["memoryBytes"] - reserved if record["state"] == "ready" else 0
        cores = self._machines.nano_cpus[record["id"]] // self._reserved_cpus - len(servers)
        return {
            **record,
            "reservedBytes": reserved,
            "room": max(0, min(free // (self.memory_mb(GameServerKind.HUNT) * MB), cores)),
            "hunts": len(hunts),
            "players": sum(len(launch.players) for launch in hunts),
        }

    @property
    def _reserved_cpus(self) -> int:
        return int(self.cpus * RESERVED_CORES * 1e9)

    async def drain(self, machine: str, on: bool) -> None:
        """Start no more hunts on a machine; after its last hunt, move its city and dojo elsewhere.

        If ``on`` is False, undo this. Raises Missing or Unavailable.
        """
        if machine not in self._machines.addresses:
            raise Missing("no such machine is in the swarm")
        try:
            node = await self.api.call("GET", f"/nodes/{machine}")
            labels = {**(node["Spec"].get("Labels") or {}), DRAIN: "1"}
            if not on:
                del labels[DRAIN]
            spec = {**node["Spec"], "Labels": labels, "Availability": "pause" if on else "active"}
            version = str(node["Version"]["Index"])
            await self.api.call("POST", f"/nodes/{machine}/update", spec, version=version)
        except (EngineError, *UNREADABLE) as error:
            raise Unavailable(f"the container engine refused: {error}") from None
        self.wake()

    async def _drain(self, nodes: Iterable[Any], hunting: Collection[str]) -> None:
        """Move the city and the dojo away from paused machines whose last hunt has ended."""
        for node in nodes:
            spec = node["Spec"]
            leaving = DRAIN in (spec.get("Labels") or {}) and spec.get("Availability") == "pause"
            if leaving and node["ID"] not in hunting:
                path = f"/nodes/{node['ID']}/update"
                version = str(node["Version"]["Index"])
                drained = {**spec, "Availability": "drain"}
                await self._try("POST", path, drained, version=version)

    async def _get(self, path: str, filters: dict[str, Any]) -> list[Any]:
        return await self.api.call("GET", path, filters=filters) or []

    async def _remove_secrets(self, label: dict[str, Any], services: Mapping[str, Any]) -> None:
        """Delete the secrets that a crash has left without a service."""
        for secret in await self._get("/secrets", label):
            if secret["Spec"]["Name"] not in services:
                await self._try("DELETE", f"/secrets/{secret['ID']}")

    async def _adopt(self, name: str, sent: Any, tasks: list[Task]) -> None:
        """Adopt a service that an earlier deploy server started, or remove the service.

        A service is adopted only if it has a machine and an intact label, its hunt has not ended,
        and ``adopt`` accepts it. An unknown service that appears while the deploy server runs is
        removed: it belongs to a launch that failed because Docker's reply was lost. If a removed
        service never had a machine, its match can be launched again.
        """
        labels = sent["Spec"].get("Labels") or {}
        try:
            server = server_from(json.parse(labels[SERVER]))
        except UNREADABLE as error:
            text = "removing the service {name}, because its label is damaged: {why}"
            log.warn(text, name=name, why=str(error))
            await self._try("DELETE", f"/services/{sent['ID']}")
            return
        kind = server.launch.kind
        observed = observe(kind, tasks, self._machines)
        over = () if kind in PERSISTENT else (State.ENDED,)  # the swarm starts a city again
        process = None
        if not self._is_listed and observed.state not in (State.WAITING, *over):
            address = self._machines.addresses.get(observed.node, "")
            process = self.adopt(evolve(server, host=address, node=observed.node))
        service = SwarmService(self.wake, name, server, process, exists=True, launching=False)
        service.removing, service.waiting_since = process is None, self.clock.seconds()
        service.recorded = max((task.created for task in tasks), default="")
        if process is None and tasks:
            service.failure = NoCapacity("memory")  # unless a task has a machine, see ``_update``
        if process is not None:
            nobody: Any = None
            process.is_zombie = lambda pid: False
            process.attach(service, nobody)
            log.info("adopted {kind} {id} on port {port}", **server.log_fields())
        self.services[name] = service

    async def _update(self, service: SwarmService, is_listed: bool, tasks: list[Task]) -> None:
        """Act on the result of a listing for one service.

        If a launch lacks room, its service is removed. If the service gets a machine before the
        removal, the hunt may have started there. Then the launch is not repeated, so that the hunt
        does not start twice.
        """
        if isinstance(service.failure, NoCapacity) and any(task.node for task in tasks):
            service.failure = OSError(
                "a machine accepted the hunt while the launch was being cancelled for lack of "
                "room. The hunt may have started, so it is not launched again."
            )
        kind = service.server.launch.kind
        if is_listed and not service.removing:
            if kind in PERSISTENT and not service.launching:
                service.record_ends(tasks)
            self._follow_state(service, observe(kind, tasks, self._machines))
        service.removing |= not is_listed
        if service.removing and not isinstance(service.failure, NoCapacity):
            self.ended.add(service.server.launch.match_id)
        if not is_listed:  # its tasks may still run
            if self.clock.seconds() < service.may_appear_until:
                service.end(service.code)  # its name and port remain in use
            elif all(is_over(task, self._machines) for task in tasks):
                await self._forget(service)
        elif service.removing:
            await self._try("DELETE", f"/services/{service.service_id}")

    def _follow_state(self, service: SwarmService, observed: Observation) -> None:
        persistent = service.server.launch.kind in PERSISTENT
        match observed.state:
            case State.RUNNING:
                service.run(observed.node, self._machines.addresses.get(observed.node, ""))
            case State.WAITING if service.launching:
                if self.clock.seconds() - service.waiting_since >= NODE_S:
                    trusted = self._needs_trust(service.server.launch)
                    log.info(
                        "{kind} {id}: no {which} has room",
                        which="machine with the label svc.trusted=1" if trusted else "machine",
                        **service.server.log_fields(),
                    )
                    self._note_waiting(service.server.launch)
                    service.fail(NoCapacity("memory"))
            case State.STARTING if service.process is not None and not persistent:
                if self.clock.seconds() - service.waiting_since >= START_S:
                    service.process.reason = f"it did not start within {START_S:.0f} s"
                    service.signalProcess("KILL")
            case _ if persistent and not service.launching:
                service.run("", "")  # the swarm starts it again
            case State.ENDED:
                service.code, service.removing = observed.code, True
                service.end(observed.code or (1 if observed.error else 0), observed.error)

    async def _forget(self, service: SwarmService) -> None:
        """Delete the secret of a deleted service, and report the end of the service."""
        await self._try("DELETE", f"/secrets/{service.name}")
        self.services.pop(service.name, None)
        service.end(service.code)

    async def _try(self, method: str, path: str, body: Any = None, **query: Any) -> None:
        """Call Docker's API; raise no error if Docker refuses the call."""
        try:
            await self.api.call(method, path, body, **query)
        except EngineError as error:
            if not error.status:
                raise
            if error.status != 404:
                self._warn(error)
