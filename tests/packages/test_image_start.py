"""A container that is stopped right after its start, before its programs handle signals."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages.support import PATIENCE_S, run
from tests.packages.test_image import HARDENED, NAME, until
from tests.support.watch import Watch

pytestmark = pytest.mark.packages

AT_ONCE_S = 20.0  # without the time that the machine spent on other work (``Watch``)
KILLED_AFTER_S = "120"  # by the clock, and far later, because other programs may delay the stop


@pytest.fixture(scope="module")
def container(image: str) -> Iterator[str]:
    """Yield the name of a stopped container that contains a host."""
    run("podman", "run", "-d", "--name", NAME, *HARDENED, "-e", "SVC_PUBLIC_HOST=127.0.0.1", image)
    try:
        until(NAME, "gateway ready", times=1)
        run("podman", "stop", "-t", "40", NAME)
        yield NAME
    finally:
        run("podman", "rm", "-f", "-v", NAME)


# slow: the start that it shares makes a host
def test_a_stop_right_after_the_start_ends_the_container(container: str) -> None:
    run("podman", "start", container)
    ends_at_once(container)


# slow: the start that it shares makes a host
def test_a_stop_while_twistd_imports_ends_the_container(container: str) -> None:
    run("podman", "start", container)
    first = int(run("podman", "inspect", container, "--format", "{{.State.Pid}}"))
    deadline = time.monotonic() + PATIENCE_S
    while not any("twistd" in words for words in command_lines(first)):
        assert time.monotonic() < deadline
    ends_at_once(container)


def command_lines(pid: int) -> list[str]:
    """Return the command lines of a process and its children, unless they have just ended."""
    lines = []
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for process in (str(pid), *children):
            lines.append(Path(f"/proc/{process}/cmdline").read_text())
    except (FileNotFoundError, ProcessLookupError):  # one of the processes has just ended
        return lines
    return lines


def ends_at_once(container: str) -> None:
    with Watch() as watch:
        run("podman", "stop", "-t", KILLED_AFTER_S, container)
    status = run("podman", "inspect", container, "--format", "{{.State.ExitCode}}").strip()
    assert status == "0"  # 137 would mean that the container was killed
    assert watch.seconds < AT_ONCE_S
