"""Exhausted file descriptors and silent clients: the process survives and recovers.

Real processes are needed because the limit of descriptors applies to a whole process.
"""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.ctl.hosts import demo_host, read_output, stack, value
from tests.live.faults.guest import Guest
from tests.live.test_stack import pid_of
from tests.support.processes import Service, eventually, metagame

pytestmark = pytest.mark.live

FEW = 40


def crowd(port: int, count: int, held: ExitStack) -> list[socket.socket]:
    """Open connections that send nothing."""
    made = []
    for _ in range(count):
        entry = held.enter_context(socket.socket())
        entry.settimeout(5)
        if entry.connect_ex(("127.0.0.1", port)) == 0:
            made.append(entry)
    return made


@contextmanager
def few_descriptors(pid: int) -> Iterator[None]:
    """Limit a process to FEW open files until the block ends."""
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (FEW, limits[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


def answers(service: Service) -> bool:
    try:
        return service.ask("GET", "/svc-status")[0] == 200
    except OSError:
        return False


def test_a_metagame_out_of_descriptors_recovers(tmp_path: Path) -> None:
    with metagame(tmp_path) as service:
        assert service.process is not None
        with few_descriptors(service.process.pid):
            with ExitStack() as held:
                crowd(service.port, 2 * FEW, held)
                eventually(lambda: "descriptor" in service.log or "EMFILE" in service.log)
            eventually(lambda: answers(service))
        assert service.process.poll() is None
        # a lack of descriptors must not fill the disk with log lines
        assert len(service.log) < 100_000


# slow: a stack of six processes
def test_a_gateway_out_of_descriptors_serves_again_when_they_are_free(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    with stack(folder):
        eventually(lambda: "stack ready" in read_output(folder), 60)
        pid = pid_of(folder, "gateway")
        assert pid is not None
        guest = Guest(folder, "late_1").arrive()
        with few_descriptors(pid):
            with ExitStack() as held:
                crowd(int(value(folder, "gateway", "GATEWAY_PORT")), 2 * FEW, held)
            eventually(guest.has_save)
        assert pid_of(folder, "gateway") == pid
        assert guest.saved()
