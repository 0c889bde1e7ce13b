"""The container image: read-only, without rights, plays an evening, is healthy, stops in order."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from tests.packages.support import PATIENCE_S, run

pytestmark = pytest.mark.packages

LOW_PORTS = "net.ipv4.ip_unprivileged_port_start=443"  # docker's default, not podman's


@pytest.fixture
def container(image: str) -> Iterator[str]:
    name = f"svc-test-{os.getpid()}"
    hardened = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--sysctl", LOW_PORTS)
    run("podman", "run", "-d", "--name", name, *hardened, "-e", "SVC_PUBLIC_HOST=127.0.0.1", image)
    try:
        until(name, "gateway ready", times=1)
        yield name
    finally:
        run("podman", "rm", "-f", "-v", name)


def until(container: str, said: str, times: int) -> None:
    """Wait until it has said that so many times."""
    deadline = time.monotonic() + PATIENCE_S
    while run("podman", "logs", container).count(said) < times:
        assert time.monotonic() < deadline, run("podman", "logs", container)
        time.sleep(0.5)


def test_it_plays_is_healthy_and_keeps_its_data_over_a_stop(container: str) -> None:
    assert inside(container, "id", "-un") == "svc\n"
    assert inside(container, "sh", "-c", "touch /mine 2>/dev/null || echo refused") == "refused\n"
    inside(container, "sh", "-c", "echo ALLOWLIST_ALLOW_PRIVATE=1 >> /data/allowlist.env")
    stop(container)
    run("podman", "start", container)
    until(container, "gateway ready", times=2)
    assert "all went well" in inside(container, "svcctl", "play", "--keep", "--config", "/data")
    run("podman", "healthcheck", "run", container)
    stop(container)
    run("podman", "start", container)
    until(container, "gateway ready", times=3)
    accounts = inside(container, "svcctl", "account", "list", "--config", "/data")
    assert len(accounts.splitlines()) >= 5  # the owner and four players


def inside(container: str, *words: str) -> str:
    """The output of a command in the container."""
    return run("podman", "exec", container, *words)


def stop(container: str) -> None:
    """SIGTERM, which must do: after 40 s podman would kill it, with another status."""
    run("podman", "stop", "-t", "40", container)
    assert run("podman", "inspect", container, "--format", "{{.State.ExitCode}}") == "0\n"
