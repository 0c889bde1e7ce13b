"""``svc-stack`` with real child processes: restarted after kill -9, stopped in order.

Real processes are needed because child processes are killed, restarted and stopped in order.
"""

import os
import re
import signal
from pathlib import Path

import pytest

from svcserver.kernel.host_state import READY, stored
from svcserver.stack.alerts.service import EVERY_S
from tests.ctl.hosts import change, demo_host, read_output, stack, value
from tests.support.processes import eventually
from tests.support.proclist import environ_of, pids, words_of
from tests.support.proves import proves

ALL = ("metagame", "deploy", "content", "allowlist", "gateway")


def pid_of(folder: Path, component: str) -> int | None:
    """Return the pid of the child that runs with the component's env file."""
    wanted = [f"svc-{component}", "--env-file", str(folder / f"{component}.env")]
    return next((pid for pid in pids() if words_of(pid)[-3:] == wanted), None)


def services_of(folder: Path) -> set[str]:
    """Return the states of the services that the overview shows."""
    state = stored(folder)
    return set() if state is None else {service.state for service in state.services}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return demo_host(tmp_path / "host")


# slow: a stack of six processes, each killed and started again
@proves("svc-stack: graceful stop", "svc-stack: restart with back-off")
def test_killed_children_come_back_and_a_stop_leaves_none(folder: Path) -> None:
    with stack(folder, itself=True) as process:
        eventually(lambda: "stack ready: " + ", ".join(ALL) in read_output(folder))
        for component in ALL:
            before = pid_of(folder, component)
            assert before is not None, component
            ready = len(re.findall(rf"\[{component}\].*\bready\b", read_output(folder)))
            os.kill(before, signal.SIGKILL)
            eventually(
                lambda component=component, ready=ready: (
                    len(re.findall(rf"\[{component}\].*\bready\b", read_output(folder))) > ready
                )
            )
            assert pid_of(folder, component) not in (None, before)
            assert f"{component} ended (signal 9)" in read_output(folder)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert [pid_of(folder, entry) for entry in ALL] == [None] * len(ALL)
    ends = re.findall(r"\[(\w+)\].*Server Shut Down", read_output(folder))
    assert ends == list(reversed(ALL))


@proves("svc-stack: only PATH HOME LANG TZ and its own env file")
def test_a_child_sees_nothing_of_the_stacks_environment(folder: Path) -> None:
    with stack(folder, itself=True):  # started with PORT=1 and a DATABASE_URL
        eventually(lambda: "[metagame]" in read_output(folder))
        eventually(lambda: pid_of(folder, "metagame"))
        pid = pid_of(folder, "metagame")
        assert pid is not None
        names = set(environ_of(pid))
        assert names <= {"PATH", "HOME", "LANG", "TZ"} and "PATH" in names
        eventually(lambda: f"metagame ready on 127.0.0.1:{value(folder, 'metagame', 'PORT')}"
                   in read_output(folder))  # fmt: skip
    assert not (folder / "of-the-stack.db").exists()


# slow: a stack of six processes
@proves("svc-stack: graceful stop")
def test_children_do_not_outlive_a_killed_stack(folder: Path) -> None:
    with stack(folder) as process:
        eventually(lambda: "stack ready" in read_output(folder))
        eventually(lambda: services_of(folder) == {READY}, EVERY_S / 2)  # before the next check
        process.kill()
        process.wait(30)
        eventually(lambda: all(pid_of(folder, component) is None for component in ALL))


def test_a_folder_without_a_host_ends_the_start_with_one_line(tmp_path: Path) -> None:
    with stack(tmp_path) as process:
        assert process.wait(30) == 1
    [line] = read_output(tmp_path).splitlines()
    assert line.startswith("svc-stack: --config ") and "svcctl init" in line


def test_a_bad_setting_ends_the_stack_with_its_line_and_status_1(folder: Path) -> None:
    change(folder, "deploy", "BIND_HOST", "many")
    with stack(folder) as process:
        assert process.wait(60) == 1
    [line] = [
        path for path in read_output(folder).splitlines() if "ended before it was ready" in path
    ]
    assert "svc-deploy: BIND_HOST" in line
    assert line.endswith("; the stack ends")
    assert pid_of(folder, "metagame") is None
