"""Components that die or hang during play; the stack restarts them and players stay.

Real processes are needed because components are killed and frozen.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ctl.hosts import change, demo_host, read_output, stack
from tests.live.faults.guest import Guest
from tests.live.test_stack import ALL, pid_of
from tests.support.processes import eventually

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    host = demo_host(tmp_path_factory.mktemp("evening") / "host")
    # shorter than the hang, and longer than a busy machine takes to answer
    change(host, "gateway", "GATEWAY_UPSTREAM_IDLE_TIMEOUT_MS", "5000")
    with stack(host):
        eventually(lambda: "stack ready" in read_output(host))
        yield host
    assert "Traceback" not in read_output(host)


def running(folder: Path, component: str) -> int:
    pid = pid_of(folder, component)
    assert pid is not None
    return pid


# slow: a component starts again while players are in
@pytest.mark.parametrize("component", ALL)
def test_players_stay_in_when_a_component_is_killed(folder: Path, component: str) -> None:
    guests = [Guest(folder, f"{component}_{n}").arrive() for n in range(2)]
    for guest in guests:
        assert guest.saved() and eventually(guest.in_the_city) and guest.downloads()
    os.kill(running(folder, component), signal.SIGKILL)
    for guest in guests:  # with the same key and token as before
        eventually(guest.has_save)
        eventually(guest.in_the_city)
        eventually(guest.downloads)
        assert guest.saved()


def test_a_hanging_metagame_is_a_504_and_goes_on_where_it_was(folder: Path) -> None:
    guest = Guest(folder, "hung_1").arrive()
    assert guest.saved()
    metagame = running(folder, "metagame")
    os.kill(metagame, signal.SIGSTOP)
    try:
        assert guest.ask("GET", "/svc-status")[0] == 504
    finally:
        os.kill(metagame, signal.SIGCONT)
    eventually(guest.has_save)
    assert guest.saved()
    assert running(folder, "metagame") == metagame


def test_a_hanging_deploy_server_holds_up_nothing_else(folder: Path) -> None:
    guest = Guest(folder, "hung_2").arrive()
    deploy = running(folder, "deploy")
    os.kill(deploy, signal.SIGSTOP)
    try:
        assert not guest.in_the_city()
        assert guest.saved() and guest.downloads()
    finally:
        os.kill(deploy, signal.SIGCONT)
    eventually(guest.in_the_city)
