"""The container image runs read-only and unprivileged, serves players and stops cleanly.

Friends connect from outside through its published port, and a newer image continues with its data.
"""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.packages import outside
from tests.packages.support import PATIENCE_S, run
from tests.support.processes import free_port

pytestmark = pytest.mark.packages

LOW_PORTS = "net.ipv4.ip_unprivileged_port_start=443"  # docker's default, not podman's
HARDENED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--sysctl", LOW_PORTS)
NAME = f"svc-test-{os.getpid()}"
IDS = "770"  # the id of the user and the group in the images of all versions
ACCOUNTS = ("svcctl", "account", "list", "--config", "/data")
# waits as docs/owners/container.md does until the host runs
ANSWERS = "until svcctl status --config /data >/dev/null 2>&1; do sleep 1; done"
# finds the process by its name; the brackets exclude this shell's own command line
FREEZE = """\
for one in /proc/[0-9]*; do
    if tr '\\0' ' ' < $one/cmdline | grep -q ' [s]vc-metagame'; then
        kill -STOP ${one#/proc/} && echo frozen
    fi
done
"""


@contextmanager
def started(image: str, *words: str) -> Iterator[str]:
    """Start a container until the block ends; yield its name."""
    run("podman", "run", "-d", "--name", NAME, *HARDENED, *words, image)
    try:
        yield NAME
    finally:
        run("podman", "rm", "-f", "-v", NAME)


@pytest.fixture
def container(image: str) -> Iterator[str]:
    with started(image, "-e", "SVC_PUBLIC_HOST=127.0.0.1") as name:
        until(name, "gateway ready", times=1)
        yield name


def until(container: str, text: str, times: int) -> None:
    """Wait until the container's output contains the text ``times`` times."""
    deadline = time.monotonic() + PATIENCE_S
    while (words := read_logs(container)).count(text) < times:
        assert time.monotonic() < deadline, words
        time.sleep(0.5)


def read_logs(container: str) -> str:
    """Return the container's output, including errors."""
    return run("sh", "-c", f"podman logs {container} 2>&1")


# slow: three starts of a host, and an evening
def test_the_image_plays_is_healthy_and_keeps_data_when_stopped(container: str) -> None:
    assert inside(container, "id", "-un") == "svc\n"
    assert inside(container, "ls", "/usr/share/svcserver") == "grafana.json\n"
    copyrights = inside(
        container, "find", "/usr/share/doc", "!", "-type", "d", "-name", "copyright"
    )
    assert {f"/usr/share/doc/{package}/copyright" for package in ("svcserver", "bash")} <= {
        *copyrights.split()
    }
    assert "packages.md" in inside(container, "find", "/usr/share/doc/svcserver")
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
    assert len(inside(container, *ACCOUNTS).splitlines()) >= 5  # the owner and four players


# slow: the health check waits nine seconds for an answer
def test_the_health_check_fails_if_the_metagame_does_not_answer(container: str) -> None:
    run("podman", "healthcheck", "run", container)
    assert inside(container, "sh", "-c", FREEZE).strip() == "frozen"
    assert ended("podman", "healthcheck", "run", container) == 1


# slow: three starts of a host, and two friends who join
def test_player_joins_by_the_published_port_and_after_an_update(image: str, tmp_path: Path) -> None:
    """The data is in a folder of the machine, owned by the user id that every image uses."""
    port = str(free_port())
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, int(IDS), int(IDS))
    words = ("-v", f"{data}:/data", "-p", f"{port}:{port}", "-e", f"SVC_GATEWAY_PORT={port}")
    words += ("-e", "SVC_PUBLIC_HOST=127.0.0.1")
    backup = (time.strftime("/data/before-%Y-%m-%d-%H%M"), "--config", "/data")
    with started(image, *words) as old:
        until(old, "gateway ready", times=1)
        assert (inside(old, "id", "-u"), inside(old, "id", "-g")) == (f"{IDS}\n", f"{IDS}\n")
        assert (data / "owner.key").stat().st_uid == int(IDS)
        joined = outside.joins(tmp_path / "ada", outside.invite(old), "Ada")
        assert (joined.host, joined.port) == ("127.0.0.1", int(port))
        inside(old, "svcctl", "db", "backup", *backup)
        inside(old, "svcctl", "drain", "on", "--wait", "--reason", "new", "--config", "/data")
        stop(old)
    following = f"{image.rpartition(':')[0]}:next-{os.getpid()}"
    run("podman", "tag", image, following)
    try:
        with started(following, *words) as new:
            inside(new, "timeout", "180", "sh", "-c", ANSWERS)
            inside(new, "svcctl", "drain", "off", "--config", "/data")
            until(new, "gateway ready", times=1)
            assert "ATTENTION" not in read_logs(new)
            assert "Ada" in inside(new, *ACCOUNTS)
            outside.joins(tmp_path / "bob", outside.invite(new), "Bob")
            stop(new)
    finally:
        run("podman", "untag", following, following)
    once = ("podman", "run", "--rm", *HARDENED, *words[:2], "--entrypoint", "svcctl", image)
    run(*once, "db", "restore", *backup)
    with started(image, *words, "-e", "SVC_GATEWAY_PORT=9") as back:
        until(back, "gateway ready", times=1)
        accounts = inside(back, *ACCOUNTS)
        assert "Ada" in accounts and "Bob" not in accounts
        assert f"SVC_GATEWAY_PORT=9, but this host's gateway listens on {port}" in read_logs(back)


def test_a_public_port_other_than_the_gateway_port_is_refused(image: str) -> None:
    words = ("-e", "SVC_PUBLIC_HOST=play.example.org:8443", "-e", "SVC_GATEWAY_PORT=443")
    with started(image, *words) as name:
        assert run("podman", "wait", name) == "1\n"
        assert "give SVC_GATEWAY_PORT=8443" in read_logs(name)


# slow: a container that is stopped, and a look into it before
def test_stop_during_host_creation_ends_at_once_without_remains(image: str, tmp_path: Path) -> None:
    os.chown(tmp_path, int(IDS), int(IDS))
    with socket.create_server(("0.0.0.0", 0)) as silent:
        # init waits for this server
        database = f"host.containers.internal:{silent.getsockname()[1]}"
        words = ("-v", f"{tmp_path}:/data", "-e", "SVC_PUBLIC_HOST=127.0.0.1")
        url = f"SVC_DATABASE_URL=postgresql://svc:no@{database}/svc"
        with started(image, *words, "-e", url) as name:
            silent.settimeout(PATIENCE_S)
            connection, _ = silent.accept()
            with connection:
                lines = inside(name, "sh", "-c", "cat /proc/[0-9]*/cmdline || true")
                assert "svcctl" in lines
                assert "postgresql:" not in lines  # every user could read the password
                run("podman", "stop", "-t", "40", name)
            assert run("podman", "inspect", name, "--format", "{{.State.ExitCode}}") == "0\n"
    assert list(tmp_path.iterdir()) == []


def inside(container: str, *words: str) -> str:
    """Run a command in the container and return its output."""
    return run("podman", "exec", container, *words)


def ended(*words: str) -> int:
    """Run a command that may fail, and return its exit status."""
    return subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=False).returncode


def stop(container: str) -> None:
    """Stop the container by SIGTERM.

    If it does not end within 40 s, podman kills it, and the exit status is different.
    """
    run("podman", "stop", "-t", "40", container)
    assert run("podman", "inspect", container, "--format", "{{.State.ExitCode}}") == "0\n"
