"""A host with two workers: clients of its usual port do not notice when either worker ends.

Real processes are needed because workers are killed and restarted.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attrs import define

from svcserver.ctl.blueprint import Scale
from tests.ctl.hosts import PATIENCE_S, demo_host, read_output, run, stack, value
from tests.live.test_restart import Traffic
from tests.support.postgres import fresh_database
from tests.support.processes import Service, eventually, register
from tests.support.proclist import environ_of, pids, words_of
from tests.support.valkey import fresh_url

pytestmark = pytest.mark.live
WORKERS = ("metagame-1", "metagame-2")
REQUESTS = 12


@define
class Host:
    """A running host with two workers."""

    folder: Path

    @property
    def usual(self) -> Service:
        """Return the service on the host's usual port, the PORT in metagame.env."""
        return self.at("metagame")

    def at(self, component: str) -> Service:
        """Return the service at a component's PORT."""
        return Service("none", self.folder, {}, int(value(self.folder, component, "PORT")))

    @property
    def gateway(self) -> int:
        """Return the gateway's port for players."""
        return int(value(self.folder, "gateway", "GATEWAY_PORT"))

    def workers(self) -> list[int]:
        """Return the process ids of the metagame's workers, ordered by port."""
        results = {}
        for pid in pids():
            words = words_of(pid)
            if str(self.folder / "metagame.env") in words and "svc-metagame" in words:
                results[environ_of(pid)["PORT"]] = pid
        return [results[port] for port in sorted(results)]

    def starts(self) -> int:
        """Return how often a worker has started."""
        return read_output(self.folder).count("metagame ready")


@contextmanager
def running(folder: Path) -> Iterator[Host]:
    """Run a host and wait until its stack is ready."""
    demo_host(folder, Scale(2, fresh_database(), fresh_url()))
    (folder / "game" / "some.pak").write_bytes(b"game")
    made = run("content", "manifest", folder / "game", "--build", "1", "--config", folder)
    assert made.returncode == 0, made.stderr
    with (folder / "gateway.env").open("a") as file:
        file.write("GATEWAY_PARK_MS=0\nGATEWAY_RATE_GENERAL=100000,1000000\n")
    with stack(folder):
        eventually(lambda: "stack ready" in read_output(folder), PATIENCE_S)
        yield Host(folder)


def statuses(service: Service, path: str, head: dict[str, str]) -> set[int]:
    """Send many requests, each on its own connection; return the statuses."""
    return {service.ask("GET", path, headers=head)[0] for _ in range(REQUESTS)}


# slow: a stack of seven processes, two of them killed
def test_requests_succeed_while_a_killed_worker_restarts(tmp_path: Path) -> None:
    with running(tmp_path / "host") as host:
        done = run("doctor", "--config", host.folder)
        assert done.returncode == 0, done.stdout + done.stderr
        owner = {"x-svc-user-api-key": (host.folder / "owner.key").read_text().strip()}
        players = [register(host.usual, f"Player{number}") for number in range(6)]
        assert statuses(host.usual, "/svc/api/BackendHealth", owner) == {200}
        for victim in range(2):
            pids, starts = host.workers(), host.starts()
            assert len(pids) == len(WORKERS)
            os.kill(pids[victim], signal.SIGKILL)
            # requests in its sockets are lost until the last of its threads has ended
            eventually(lambda pid=pids[victim]: not Path(f"/proc/{pid}").exists())
            # the owner, the content server (with keys that it has not seen) and game servers
            assert statuses(host.usual, "/svc/api/BackendHealth", owner) == {200}
            for player in players[victim::2]:
                key = {"x-svc-user-api-key": player["key"]}
                status, body = host.at("content").ask("GET", "/content/v1/manifest", headers=key)
                assert status == 200, body
            done = run("status", "--config", host.folder)
            assert done.returncode == 0, done.stdout + done.stderr
            eventually(lambda starts=starts: host.starts() > starts, PATIENCE_S)


# slow: a stack of seven processes, two of them started again
def test_a_rolling_restart_of_workers_goes_unnoticed(
    tmp_path: Path,
) -> None:
    with running(tmp_path / "host") as host:
        before = host.workers()
        players = [register(host.usual, f"Player{number}") for number in range(8)]
        with Traffic(host.gateway, players) as traffic:
            traffic.goes_on()
            done = run("restart", "--rolling", "--config", host.folder)
            traffic.goes_on()
        after = host.workers()
    assert done.returncode == 0, done.stderr + read_output(host.folder)
    assert traffic.failed() == {}, traffic.answers
    assert len(before) == len(after) == len(WORKERS)
    assert not set(before) & set(after)
