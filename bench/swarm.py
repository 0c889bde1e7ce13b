"""Launches of hunts in a Docker Swarm with one machine: latency, and CPU time.

    sudo .venv/bin/python -m bench.swarm [--launches 200] [--seconds 60]

Needs root, and Debian's docker.io, runc and busybox-static. Launches arrive at a steady rate. Each
hunt ends two seconds after its launch. The baseline is a container that ``docker run`` starts, one
at a time. The engine's CPU time includes containerd and runc, but not the hunts. Exits with status
1 if a launch fails.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import define, field

from bench.meters import cpu_s
from tests.live.deploying import HUNT, deploy, hand_out, udp_block
from tests.live.swarm_engine import IMAGE, SwarmMachine, swarm_machine, talk
from tests.support.processes import Service, eventually

PORTS = 64
HUNT_S = 2.0
BASELINES = 5
GROUPS = Path("/sys/fs/cgroup")


@define
class Launches:
    """The latency of each launch, and the statuses of those that failed."""

    seconds: list[float] = field(factory=list)
    failures: list[object] = field(factory=list)

    def launch(self, service: Service) -> None:
        """Launch a hunt, and let it end after ``HUNT_S``."""
        began = time.perf_counter()
        status, reply = hand_out(service, HUNT, **{"X-Svc-Match": str(uuid.uuid4())})
        if status != 200:
            self.failures.append((status, reply))
            return
        self.seconds.append(time.perf_counter() - began)
        time.sleep(HUNT_S)
        talk(reply["port"])


@define
class EngineCpu:
    """A control group that counts the CPU time of an engine and all its processes."""

    unified: bool = field(factory=lambda: (GROUPS / "cgroup.controllers").exists())

    @property
    def root(self) -> Path:
        return GROUPS if self.unified else GROUPS / "cpuacct"

    @property
    def folder(self) -> Path:
        return self.root / f"svc-bench-{os.getpid()}"

    @contextmanager
    def join(self) -> Iterator[None]:
        """Count the processes that are started in the ``with`` block, and all their descendants."""
        self.folder.mkdir()
        own = str(os.getpid())
        (self.folder / "cgroup.procs").write_text(own)
        try:
            yield
        finally:
            (self.root / "cgroup.procs").write_text(own)

    def seconds(self) -> float:
        if self.unified:
            return int((self.folder / "cpu.stat").read_text().split()[1]) / 1e6
        return int((self.folder / "cpuacct.usage").read_text()) / 1e9


def settings(machine: SwarmMachine) -> dict[str, str]:
    """Return the settings of the deploy server."""
    last = udp_block(PORTS)
    return {
        "PORT_RANGE_BEGIN": str(last - PORTS + 1),
        "PORT_RANGE_END": str(last),
        "GAMESERVER_ENGINE": "swarm",
        "GAMESERVER_IMAGE": IMAGE,
        "GAMESERVER_BINARY_PATH": "/game",
        "GAMESERVER_LAUNCH_KEYS": "1",
        "GAMESERVER_STARTUP_MB": "64",
        "GAMESERVER_CPUS": "0.1",
        "DOCKER_HOST": f"unix://{machine.socket}",
    }


def baseline(machine: SwarmMachine) -> float:
    """Return the median time in which ``docker run`` starts a container and ends it."""
    taken = []
    for _ in range(BASELINES):
        began = time.perf_counter()
        machine.docker(
            "run", "--rm", "--network", "host", "--entrypoint", "/bin/sh", IMAGE, "-c", ":"
        )
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def measure(
    service: Service, engine: EngineCpu, count: int, seconds: float
) -> tuple[Launches, float, float]:
    """Launch ``count`` hunts in ``seconds``.

    Returns the launches, and the CPU seconds of the deploy server and of the engine.
    """
    process = service.process
    if process is None:
        sys.exit("the deploy server does not run")
    launches = Launches()
    before, engine_before, began = cpu_s(process.pid), engine.seconds(), time.perf_counter()
    with ThreadPoolExecutor(PORTS) as pool:
        for number in range(count):
            time.sleep(max(0.0, began + number * seconds / count - time.perf_counter()))
            pool.submit(launches.launch, service)
    return launches, cpu_s(process.pid) - before, engine.seconds() - engine_before


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--launches", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    engine = EngineCpu()
    with ExitStack() as ends:
        folder = ends.enter_context(tempfile.TemporaryDirectory())
        with engine.join():
            ends.callback(engine.folder.rmdir)
            machine = ends.enter_context(swarm_machine())
        container_s = baseline(machine)
        with deploy(Path(folder), **settings(machine)) as service:
            eventually(lambda: machine.names("service"))  # the city
            began = time.perf_counter()
            launches, cpu, engine_cpu = measure(service, engine, options.launches, options.seconds)
            taken = time.perf_counter() - began
    cuts = statistics.quantiles(launches.seconds, n=100)
    print(f"{len(launches.seconds)} launches in {options.seconds:.0f} s")
    print(f"p50 {cuts[49]:.2f} s, p99 {cuts[98]:.2f} s; docker run takes {container_s:.2f} s")
    for name, used in (("deploy server", cpu), ("engine", engine_cpu)):
        each = 1000 * used / options.launches
        share = 100 * used / taken / len(os.sched_getaffinity(0))
        print(f"CPU of the {name} {used:.1f} s, {each:.0f} ms for each launch, {share:.0f} %")
    print(f"load average {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
    if launches.failures:
        sys.exit(f"{len(launches.failures)} launches failed: {launches.failures[:3]}")


if __name__ == "__main__":
    main()
