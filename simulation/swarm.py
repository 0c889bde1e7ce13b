"""A Docker Swarm in memory, with its machines, services, tasks and secrets."""

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from svcserver.deploy.docker_api import EngineError

MB = 1024 * 1024
LATE_STEPS = 30
STOP_STEPS = 15  # until a program has ended
FINAL = ("complete", "failed", "rejected", "shutdown", "orphaned")
REMEMBERED = 5  # ended tasks of a service
NO_IMAGE = {"State": "rejected", "Err": "No such image: game:1"}
Json = dict[str, Any]


@define(eq=False)
class FakeSwarm:
    """A fake of ``DockerApi``; ``step`` lets the swarm schedule, start and stop tasks.

    As in Docker, tasks outlive a deleted service until their programs have ended.
    """

    machines: dict[str, int] = field(factory=lambda: {"node1": 1024})  # free MB by node id
    version: str = "1.41"
    nano_cpus: int = 4 * 10**9  # of each machine; not reserved here
    down: set[str] = field(factory=set)
    labels: dict[str, Json] = field(factory=dict)  # by node id
    rejecting: set[str] = field(factory=set)  # machines without the image
    services: dict[str, Json] = field(factory=dict)  # by id
    secrets: dict[str, Json] = field(factory=dict)  # by name
    tasks: list[Json] = field(factory=list)
    away: bool = False
    loses_reply: bool = False  # carry out the next POST, but do not answer
    is_late: bool = False  # carry out the next creation after 30 steps, and do not answer
    secrets_in_use: set[str] = field(factory=set)  # they cannot be deleted
    garbled: bool = False  # replies to POST have unexpected fields
    listings: int = 0
    late: list[tuple[int, str, Json]] = field(factory=list)  # at a step, path and body
    leaving: set[str] = field(factory=set)  # machines with the label svc.drain
    availability: dict[str, str] = field(factory=dict)
    unreachable: set[str] = field(factory=set)  # tasks there continue, but do not change here
    starts: list[str] = field(factory=list)  # the service names of all tasks that ran
    _serial: int = 0
    _steps: int = 0

    async def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        filters: Json | None = None,
        **query: str,
    ) -> Any:
        if self.away:
            raise EngineError(0, "no answer: away")
        if self.is_late and path == "/services/create":
            self.is_late = False
            self.late.append((self._steps + LATE_STEPS, path, body or {}))
            raise EngineError(0, "no answer: late")
        self.listings += path == "/nodes"
        reply = self._answer(method, path, body or {})
        if self.garbled and method == "POST":
            return ["unexpected"]
        if self.loses_reply and method == "POST" and path.endswith("create"):
            self.loses_reply = False
            raise EngineError(0, "no answer: lost")
        return reply

    def follow_events(self, filters: Json, changed: Any) -> Deferred[None]:
        return Deferred()

    def _answer(self, method: str, path: str, body: Json) -> Any:
        words = path.strip("/").split("/")
        match method, words:
            case "GET", ["nodes", node] if node in self.machines:
                return next(sent for sent in self._listed("nodes") if sent["ID"] == node)
            case "GET", [what]:
                return self._listed(what)
            case "DELETE", ["secrets", name] if name in self.secrets_in_use:
                raise EngineError(400, "secret is in use")
            case "DELETE", [what, name]:
                return self._delete(self.services if what == "services" else self.secrets, name)
            case "POST", ["nodes", node, "update"] if node in self.machines:
                return self._update(node, body)
            case _, ["nodes", _, *_]:
                raise EngineError(404, "not found")
            case "POST", ["secrets", "create"]:
                return self._create(self.secrets, body["Name"], body)
            case "POST", ["services", "create"]:
                return self._create_service(body)
        raise AssertionError(f"{method} {path}")

    def _delete(self, table: dict[str, Json], name: str) -> None:
        if table.pop(name, None) is None:
            raise EngineError(404, "not found")
        for task in self._tasks_of(name):
            task["DesiredState"] = "remove"
        self.changed()

    def _update(self, node: str, body: Json) -> None:
        self.availability[node] = body["Availability"]
        self.leaving = self.leaving | {node} if body["Labels"] else self.leaving - {node}
        if body["Availability"] == "drain":
            self._move_from(node)
        self.changed()

    def _listed(self, what: str) -> Any:
        lists: Json = {
            "info": {"Swarm": {"NodeID": "node1", "ControlAvailable": True}},
            "services": list(self.services.values()),
            "tasks": [{**task, "Status": task.get("known", task["Status"])} for task in self.tasks],
            "secrets": [{"ID": name, "Spec": {"Name": name}} for name in self.secrets],
            "nodes": [
                {
                    "ID": name,
                    "Spec": {
                        "Labels": {
                            **self.labels.get(name, {}),
                            **({"svc.drain": "1"} if name in self.leaving else {}),
                        },
                        "Availability": self.availability.get(name, "active"),
                    },
                    "Version": {"Index": 1},
                    "Description": {
                        "Hostname": f"host of {name}",
                        "Engine": {"EngineVersion": "20.10.24"},
                        "Resources": {
                            "MemoryBytes": self.machines[name] * MB,
                            "NanoCPUs": self.nano_cpus,
                        },
                    },
                    "Status": {
                        "State": "down" if name in self.down else "ready",
                        "Addr": name.replace("node", "10.0.0."),
                    },
                }
                for name in self.machines
            ],
        }
        return lists[what]

    def _create_service(self, body: Json) -> Json:
        if body["Name"] in [service["Spec"]["Name"] for service in self.services.values()]:
            raise EngineError(409, "name conflicts with an existing object")
        self._serial += 1
        made: Json = {"ID": f"s{self._serial}", "Spec": body, "Version": {"Index": 1}}
        self.services[made["ID"]] = made
        self._add_task(made)
        self.changed()
        return made

    def _create(self, table: dict[str, Json], name: str, body: Json) -> Json:
        if name in table:
            raise EngineError(409, "name conflicts with an existing object")
        table[name] = body
        return {"ID": name}

    def _tasks_of(self, service_id: str) -> list[Json]:
        return [task for task in self.tasks if task["ServiceID"] == service_id]

    def _add_task(self, service: Json) -> None:
        self._serial += 1
        template = service["Spec"]["TaskTemplate"]
        ended = [task for task in self._tasks_of(service["ID"]) if task["Status"]["State"] in FINAL]
        for task in ended[: len(ended) - REMEMBERED]:
            self.tasks.remove(task)
        self.tasks.append(
            {
                "ID": f"t{self._serial}",
                "ServiceID": service["ID"],
                "CreatedAt": f"{self._serial:09}",
                "DesiredState": "running",
                "NodeID": "",
                "Status": {"State": "pending"},
                "Spec": template,
                "name": service["Spec"]["Name"],
                "port": template["ContainerSpec"]["Args"][2],
                "MB": template["Resources"]["Reservations"]["MemoryBytes"] // MB,
                "persistent": template["RestartPolicy"]["Condition"] == "any",
            }
        )

    def _create_late(self) -> None:
        self._steps += 1
        for due, path, body in list(self.late):
            if due <= self._steps:
                self.late.remove((due, path, body))
                self._answer("POST", path, body)

    def step(self) -> None:
        """Let every task advance by one state."""
        self._create_late()
        for task in list(self.tasks):
            state, node = task["Status"]["State"], task["NodeID"]
            if state != "orphaned" and (node in self.down or node in self.unreachable):
                continue
            if task["DesiredState"] != "running":
                self._stop(task)
            elif state == "pending":
                self._place(task)
            elif state == "preparing":
                self._start(task)
            elif state in FINAL and task["persistent"]:
                task["DesiredState"] = "shutdown"
                if task["ServiceID"] in self.services:
                    self._add_task(self.services[task["ServiceID"]])

    def _start(self, task: Json) -> None:
        if task["NodeID"] in self.rejecting:
            task["Status"] = NO_IMAGE
        else:
            task["Status"] = {"State": "running"}
            self.starts.append(task["name"])
            self.started(task)

    def _stop(self, task: Json) -> None:
        state = task["Status"]["State"]
        if state == "running":
            task["steps"] = task.get("steps", STOP_STEPS) - 1
            if not task["steps"]:
                self.stopped(task)
                task["Status"] = {"State": "shutdown"}
        elif task["DesiredState"] == "remove":
            self.tasks.remove(task)
        elif state not in FINAL:
            task["Status"] = {"State": "shutdown"}

    def started(self, task: Json) -> None:
        """A hook for subclasses, called when a task's program starts."""

    def stopped(self, task: Json) -> None:
        """A hook for subclasses, called when a task's program ends."""

    def changed(self) -> None:
        """A hook for subclasses, called when followers of the engine's events must get an event."""

    def free(self, node: str) -> int:
        """Return how many MB of a machine's memory are free, because no task has reserved them."""
        used = sum(
            task["MB"] for task in self._tasks_on(node) if task["Status"]["State"] not in FINAL
        )
        return self.machines[node] - int(used)

    def _place(self, task: Json) -> None:
        refused = task["Spec"]["Placement"]["Constraints"]
        for node in self.machines:
            is_open = node not in self.down and self.availability.get(node, "active") == "active"
            fits = is_open and f"node.id!={node}" not in refused
            if fits and self.free(node) >= task["MB"]:
                task["NodeID"], task["Status"] = node, {"State": "preparing"}
                return

    def running(self) -> list[Json]:
        """Return the tasks that run on machines that are not lost."""
        return [
            task
            for task in self.tasks
            if task["Status"]["State"] == "running" and task["NodeID"] not in self.down
        ]

    def end(self, task: Json, code: int = 0, error: str = "") -> None:
        """Report that a task's program has ended."""
        state = "failed" if code or error else "complete"
        task["Status"] = {"State": state, "ContainerStatus": {"ExitCode": code}, "Err": error}

    def start_unseen(self, node: str) -> None:
        """Start the tasks that a machine had received before it was cut off.

        The manager does not learn that these tasks have started.
        """
        for task in self._tasks_on(node):
            if task["Status"]["State"] == "preparing" and task["DesiredState"] == "running":
                task["known"] = task["Status"]
                self._start(task)

    def lose(self, node: str) -> None:
        """Mark a machine as lost; the swarm moves the machine's city and dojo, but never a hunt."""
        if node not in self.unreachable:
            self.start_unseen(node)
        self.down.add(node)
        self._move_from(node)
        self.changed()

    def recover(self, node: str) -> None:
        """Reconnect a lost machine; the programs that should no longer run there are stopped."""
        self.down.discard(node)
        self.unreachable.discard(node)
        for task in self._tasks_on(node):
            task.pop("known", None)
        self.changed()

    def remove(self, node: str) -> None:
        """Remove a machine from the swarm, without stopping its programs."""
        self.lose(node)
        del self.machines[node]
        for task in self._tasks_on(node):
            task.pop("known", None)
            task["Status"] = {"State": "orphaned"}

    def _move_from(self, node: str) -> None:
        for task in self._tasks_on(node):
            if task["DesiredState"] != "running":
                continue
            task["DesiredState"] = "shutdown"
            if task["persistent"]:
                self._add_task(self.services[task["ServiceID"]])

    def _tasks_on(self, node: str) -> list[Json]:
        return [task for task in self.tasks if task["NodeID"] == node]
