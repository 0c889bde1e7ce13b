"""Launches of hunts in a Docker Swarm with one machine: latency, and CPU time of the deploy server.

    sudo .venv/bin/python -m bench.swarm [--launches 200] [--seconds 60]

Needs root, and Debian's docker.io, runc and busybox-static. Launches arrive at a steady rate. Each
hunt ends two seconds after its launch. The baseline is a container that ``docker run`` starts, one
at a time. Exits with status 1 if a launch fails.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attrs import define, field

from bench.meters import cpu_s
from tests.live.deploying import HUNT, deploy, hand_out, udp_block
from tests.live.swarm_engine import IMAGE, SwarmMachine, swarm_machine, talk
from tests.support.processes import Service, eventually

PORTS = 64
HUNT_S = 2.0
BASELINES = 5


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


def measure(service: Service, count: int, seconds: float) -> tuple[Launches, float]:
    """Launch ``count`` hunts in ``seconds``; return them and the deploy server's CPU seconds."""
    process: subprocess.Popen[bytes] | None = service.process
    if process is None:
        sys.exit("the deploy server does not run")
    launches = Launches()
    before, began = cpu_s(process.pid), time.perf_counter()
    with ThreadPoolExecutor(PORTS) as pool:
        for number in range(count):
            time.sleep(max(0.0, began + number * seconds / count - time.perf_counter()))
            pool.submit(launches.launch, service)
    return launches, cpu_s(process.pid) - before


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--launches", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, swarm_machine() as machine:
        container_s = baseline(machine)
        with deploy(Path(folder), **settings(machine)) as service:
            eventually(lambda: machine.names("service"))  # the city
            launches, cpu = measure(service, options.launches, options.seconds)
    cuts = statistics.quantiles(launches.seconds, n=100)
    print(f"{len(launches.seconds)} launches in {options.seconds:.0f} s")
    print(f"p50 {cuts[49]:.2f} s, p99 {cuts[98]:.2f} s; docker run takes {container_s:.2f} s")
    each = 1000 * cpu / options.launches
    print(f"CPU of the deploy server {cpu:.1f} s, {each:.0f} ms for each launch")
    if launches.failures:
        sys.exit(f"{len(launches.failures)} launches failed: {launches.failures[:3]}")


if __name__ == "__main__":
    main()
