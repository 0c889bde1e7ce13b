"""The simulation's fake swarm does the same as a real Docker Swarm after the same calls."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from attrs import define, field
from pytest_twisted import ensureDeferred
from twisted.internet.task import deferLater

from simulation.swarm import MB, FakeSwarm
from svcserver.deploy.docker_api import DockerApi, EngineError, engine_client
from svcserver.deploy.swarm import ENDED, HOST, Task
from tests.live.swarm_engine import IMAGE, SwarmMachine, swarm_machine
from tests.support.processes import eventually

pytestmark = pytest.mark.live

LABELS = {HOST: "contract"}
FILTER = {"label": [f"{HOST}=contract"]}
STOP_S = 8  # longer than a listing takes on a busy machine
PROGRAM = f"""
trap 'exit 3' USR1; trap 'sleep {STOP_S}; exit 0' TERM
echo > /tmp/ready
while :; do sleep 600 & wait; done
"""
PATIENCE = 300  # looks at the tasks
HUGE_MB = 10_000_000


@pytest.fixture
def machine() -> Iterator[SwarmMachine]:
    with swarm_machine() as machine:
        yield machine


def service(name: str, memory_mb: int, condition: str) -> dict[str, Any]:
    """Return the definition of a service."""
    return {
        "Name": name,
        "Labels": LABELS,
        "Mode": {"Replicated": {"Replicas": 1}},
        "TaskTemplate": {
            "ContainerSpec": {
                "Image": IMAGE,
                "Command": ["/bin/sh", "-c", PROGRAM],
                "Args": ["game", "key", "9000"],
                "Labels": LABELS,
                "StopGracePeriod": int(2 * STOP_S * 1e9),
            },
            "RestartPolicy": {"Condition": condition, "Delay": int(1e8)},
            "Placement": {"Constraints": []},
            "Resources": {"Reservations": {"MemoryBytes": memory_mb * MB}},
            "Networks": [{"Target": "host"}],
        },
    }


@define
class Conversation:
    """Calls to an engine, real or fake, and a log of what the calls show."""

    api: Any
    wait: Callable[[], Coroutine[Any, Any, None]]  # a moment
    end: Callable[[], None]  # ends the running program with code 3
    log: list[object] = field(factory=list)

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        try:
            return await self.api.call(method, path, body)
        except EngineError as error:
            self.log.append((method, path.split("/")[1], error.status))

    async def until(self, *states: str) -> None:
        """Wait until the tasks, oldest first, have these states; log the states and exit codes."""
        tasks: list[Task] = []
        for _ in range(PATIENCE):
            sent = await self.api.call("GET", "/tasks", filters=FILTER) or []
            tasks = sorted(map(Task.parse, sent), key=lambda task: task.created)
            if tuple(task.state for task in tasks) == states:
                break
            await self.wait()
        for task in tasks:  # the code of a running task means nothing
            code = task.code if task.state in ENDED else 0
            self.log.append((task.state, code, bool(task.node)))
        self.log.append(len(tasks))

    async def run(self) -> list[object]:
        """Create, end and delete services."""
        secret = {"Name": "svc-a", "Labels": LABELS, "Data": "a2V5"}
        for _ in range(2):  # the second name is taken
            await self.call("POST", "/secrets/create", secret)
        hunt = await self.call("POST", "/services/create", service("svc-a", 16, "none"))
        await self.until("running")
        await self.call("POST", "/services/create", service("svc-a", 16, "none"))
        await self.until("running")
        self.end()  # the swarm does not restart a hunt
        await self.until("failed")
        for _ in range(10):
            await self.wait()
        await self.until("failed")
        await self.call("DELETE", f"/services/{hunt['ID']}")
        await self.call("DELETE", f"/services/{hunt['ID']}")
        await self.until()
        waiting = await self.call("POST", "/services/create", service("svc-b", HUGE_MB, "none"))
        await self.until("pending")
        await self.call("DELETE", f"/services/{waiting['ID']}")
        await self.until()
        city = await self.call("POST", "/services/create", service("svc-city", 16, "any"))
        await self.until("running")
        self.end()  # the swarm restarts a city, and remembers the end
        await self.until("failed", "running")
        await self.call("DELETE", f"/services/{city['ID']}")
        await self.until("running")  # its program has not ended yet, and the first end is forgotten
        await self.until()
        return self.log


async def talk_to_fake() -> list[object]:
    swarm = FakeSwarm()

    async def step() -> None:
        swarm.step()

    return await Conversation(swarm, step, lambda: swarm.end(swarm.running()[-1], 3)).run()


@ensureDeferred
async def test_fake_and_real_swarm_answer_alike(machine: SwarmMachine) -> None:
    from twisted.internet import reactor

    async def pause() -> None:
        await deferLater(reactor, 0.1)

    def end() -> None:
        [container] = machine.docker("ps", "--quiet").stdout.split()
        ready = ("exec", container, "/bin/cat", "/tmp/ready")
        eventually(lambda: machine.docker(*ready, check=False).returncode == 0)
        machine.docker("kill", "--signal", "USR1", container)

    client = engine_client(reactor, machine.socket, "")
    api = DockerApi(client, reactor)  # type: ignore[arg-type]
    real = await Conversation(api, pause, end).run()
    assert await talk_to_fake() == real
