"""Game servers that misbehave: they cannot be executed, or leave processes of their own behind.

Real processes are needed because the tests check the start and the end of child processes.
"""

import os
import shutil
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from svcserver.deploy.executables import cause, try_program
from tests.ctl.command import svcctl
from tests.ctl.hosts import change, demo_host
from tests.live.deploying import (
    CITY,
    HUNT,
    SIMULATOR,
    as_owner,
    deploy,
    hand_out,
    is_bound,
    program,
    servers,
)
from tests.live.test_deploy import answered, children, is_dead
from tests.support.processes import Service, eventually

pytestmark = pytest.mark.live

AARCH64 = 0xB7
BACKGROUND = f'setsid {SIMULATOR} "$@" <&- >/dev/null 2>&1 3>&- 4>&- 5>&- &'


def elf_for_another_processor(path: Path) -> None:
    data = bytearray(Path("/bin/true").resolve().read_bytes())
    data[18:20] = AARCH64.to_bytes(2, "little")
    path.write_bytes(data)


def elf_without_a_loader(path: Path) -> None:
    data = Path("/bin/true").resolve().read_bytes()
    loader = data[data.index(b"/lib") :].partition(b"\0")[0]
    path.write_bytes(data.replace(loader, loader[:-2] + b"xx"))


def written(data: bytes) -> Any:
    return lambda path: path.write_bytes(data)


CANNOT_RUN = {
    "Windows": (written(b"MZ\x90\0\3\0\0\0"), "is a Windows program; set GAMESERVER_LAUNCHER"),
    "CR LF": (written(b"#!/bin/sh\r\nexec true\r\n"), "has Windows line ends (CR LF)"),
    "interpreter": (written(b"#!/opt/none/python\n"), "needs the interpreter /opt/none/python"),
    "processor": (elf_for_another_processor, "is built for aarch64"),
    "loader": (elf_without_a_loader, "needs the loader /lib"),
    "no #!": (written(b"exec true\n"), "is a script without a #! line"),
    "empty": (written(b""), "is empty"),
    "garbage": (written(b"\1\2\0\3"), "is not a program this machine can run"),
}


def about(service: Service, binary: Path) -> list[str]:
    """Return the log lines that name the program."""
    return [line for line in service.log.splitlines() if str(binary) in line]


@pytest.mark.parametrize("name", CANNOT_RUN)
def test_a_program_that_cannot_run_is_a_500_and_one_line(name: str, tmp_path: Path) -> None:
    plant, words = CANNOT_RUN[name]
    binary = tmp_path / "game-server"
    plant(binary)
    binary.chmod(0o755)
    with deploy(tmp_path, GAMESERVER_BINARY_PATH=str(binary), HUNT_WORKER="1") as service:
        for count in range(1, 9):  # more than there are ports
            assert hand_out(service, HUNT) == (500, {"error": "no_game_server"})
            eventually(lambda count=count: len(about(service, binary)) == count)
            assert words in about(service, binary)[-1]
        assert servers(service) == []
        eventually(lambda: not children(service))


def test_a_city_that_cannot_run_is_one_fatal_line_with_the_cause(tmp_path: Path) -> None:
    binary = tmp_path / "game-server.exe"
    binary.write_bytes(b"MZ\x90\0")
    binary.chmod(0o755)
    with deploy(tmp_path, GAMESERVER_BINARY_PATH=str(binary)) as service:
        eventually(lambda: "the city did not start" in service.log)
        [line] = about(service, binary)
        assert "is a Windows program" in line
        assert service.stop() == 1


def of_the_port(port: int) -> list[int]:
    """Return the pids that hold a UDP port, read from ``/proc``."""
    rows = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    inodes = {f"socket:[{row[9]}]" for row in rows if int(row[1].rpartition(":")[2], 16) == port}
    results = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            held = {os.readlink(line) for line in (folder / "fd").iterdir()}
        except OSError:
            continue
        if not inodes.isdisjoint(held):
            results.append(int(folder.name))
    return results


def act(service: Service, name: str, server_id: str) -> tuple[int, Any]:
    return as_owner(service, "POST", "/gameservers/handle", {"Act": name, "Id": server_id})


WRAPPERS = {
    "forks away": (f'{SIMULATOR} "$@" &', "exit 0"),
    "own session": (BACKGROUND, "exit 0"),
    "twice": (f"sh -c '{BACKGROUND}' sh \"$@\"", "exit 0"),
    "no environment": (f'env -i setsid {SIMULATOR} "$@" >/dev/null 2>&1 &', "exit 0"),
    "slow": (f'(sleep 1; exec setsid {SIMULATOR} "$@") >/dev/null 2>&1 &', "exit 0"),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_server_in_the_background_is_followed_and_stopped(name: str, tmp_path: Path) -> None:
    binary = program(tmp_path, "wrapper", *WRAPPERS[name])
    with deploy(tmp_path, GAMESERVER_BINARY_PATH=binary) as service:
        city = hand_out(service, CITY)[1]["port"]
        eventually(lambda: answered(city))
        [before] = servers(service)
        assert hand_out(service, CITY)[1]["port"] == city
        assert servers(service) == [before]  # the same game server
        [pid] = of_the_port(city)
        status, body = act(service, "restart", before["id"])
        assert (status, is_dead(pid)) == (200, True), body
        eventually(lambda: answered(city))
        hunt = hand_out(service, HUNT)[1]["port"]
        eventually(lambda: answered(hunt))
        pids = [*of_the_port(city), *of_the_port(hunt)]
        assert len(pids) == 2
        # the deploy server notices the end of this process as well
        os.kill(pids[1], signal.SIGKILL)
        eventually(lambda: len(servers(service)) == 1)
        service.stop()
        assert is_dead(pids[0]) and not is_bound(city)


def test_a_server_in_the_background_is_adopted_after_a_crash(tmp_path: Path) -> None:
    binary = program(tmp_path, "wrapper", BACKGROUND, "exit 0")
    with deploy(tmp_path, GAMESERVER_BINARY_PATH=binary) as service:
        city = hand_out(service, CITY)[1]["port"]
        eventually(lambda: answered(city))
        [before], [pid] = servers(service), of_the_port(city)
        for how in (signal.SIGKILL, signal.SIGHUP, signal.SIGKILL):
            service.stop(how)
            assert answered(city)
            service.start()
            assert servers(service) == [before]
            assert of_the_port(city) == [pid]
        assert act(service, "stop", before["id"])[0] == 200
        assert is_dead(pid) and not is_bound(city)


def test_a_launcher_that_ends_while_nobody_looks_loses_nothing(tmp_path: Path) -> None:
    flag = tmp_path / "enough"
    waits = f"while [ ! -e {flag} ]; do sleep 0.1; done"
    binary = program(tmp_path, "wrapper", BACKGROUND, waits)
    with deploy(tmp_path, GAMESERVER_BINARY_PATH=binary) as service:
        city = hand_out(service, CITY)[1]["port"]
        eventually(lambda: answered(city))
        [before], [launcher] = servers(service), children(service)
        service.stop(signal.SIGKILL)
        flag.touch()
        eventually(lambda: is_dead(launcher))
        service.start()
        assert servers(service) == [before]
        assert answered(city)
    assert not is_bound(city)


def test_a_grandchild_with_its_own_session_ends_with_a_restart(tmp_path: Path) -> None:
    note = tmp_path / "helper"
    helper = f"setsid sh -c 'echo $$ > {note}; exec sleep 3600' >/dev/null 2>&1 &"
    binary = program(tmp_path, "wrapper", helper, f'exec {SIMULATOR} "$@"')
    with deploy(tmp_path, GAMESERVER_BINARY_PATH=binary) as service:
        city = hand_out(service, CITY)[1]["port"]
        eventually(lambda: answered(city) and note.exists() and note.read_text().strip())
        first = int(note.read_text())
        note.unlink()
        [before] = servers(service)
        assert act(service, "restart", before["id"])[0] == 200
        assert is_dead(first)
        second = int(eventually(lambda: note.exists() and note.read_text().strip()))
        [pid] = eventually(lambda: of_the_port(city))
        os.kill(pid, signal.SIGKILL)  # the city crashes
        eventually(lambda: is_dead(pid))
        assert hand_out(service, CITY)[0] == 200  # the city gets its own port again
        assert is_dead(second)
        third = int(
            eventually(lambda: note.read_text().strip() != str(second) and note.read_text())
        )
    assert is_dead(third)


# slow: as long as a game server may take to stop
def test_a_background_game_server_that_ignores_stop_is_killed(tmp_path: Path) -> None:
    binary = program(tmp_path, "wrapper", BACKGROUND, "exit 0")
    deaf = {"GAMESERVER_ARGS": "-sim-deaf"}
    with deploy(tmp_path, GAMESERVER_BINARY_PATH=binary, **deaf) as service:
        city = hand_out(service, CITY)[1]["port"]
        eventually(lambda: answered(city))
        [pid], [before] = of_the_port(city), servers(service)
        assert act(service, "stop", before["id"])[0] == 200
        assert is_dead(pid) and not is_bound(city)


def test_orphans_that_have_ended_do_not_stay_zombies(tmp_path: Path) -> None:
    forks = "for n in 1 2 3; do (setsid sh -c 'exit 0' &) ; done"
    binary = program(tmp_path, "wrapper", forks, f'exec {SIMULATOR} "$@"')
    with deploy(tmp_path, GAMESERVER_BINARY_PATH=binary) as service:
        city = hand_out(service, CITY)[1]["port"]
        eventually(lambda: answered(city))
        [before] = servers(service)
        act(service, "stop", before["id"])
        eventually(lambda: not children(service))


def test_a_chain_of_orphans_ends_with_the_deploy_server(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    next_one = '[ "$1" = 0 ] || "$0" $(($1 - 1)) &'
    chain = program(tmp_path, "chain", f"touch {notes}/$$", next_one, "exec sleep 3600")
    orphans = f"(env -i setsid {chain} 20 >/dev/null 2>&1 &)"
    binary = program(tmp_path, "wrapper", orphans, f'exec {SIMULATOR} "$@"')
    with deploy(tmp_path, GAMESERVER_BINARY_PATH=binary) as service:
        city = hand_out(service, CITY)[1]["port"]
        eventually(lambda: answered(city))
        eventually(lambda: len(list(notes.iterdir())) == 21)
        service.stop()
        assert [note.name for note in notes.iterdir() if not is_dead(int(note.name))] == []


def test_output_without_end_or_line_breaks_costs_nothing_else(tmp_path: Path) -> None:
    noise = "(while :; do printf '%065536d' 7; done) &"
    binary = program(tmp_path, "noisy", noise, f'exec {SIMULATOR} "$@"')
    with deploy(tmp_path, GAMESERVER_BINARY_PATH=binary) as service:
        city = hand_out(service, CITY)[1]["port"]
        eventually(lambda: answered(city))
        old = tmp_path / "gameserver-logs" / f"city-{city}.old"
        eventually(old.exists)
        began = time.monotonic()
        [before] = servers(service)
        console = as_owner(service, "GET", f"/gameservers/console?id={before['id']}")
        assert console[0] == 200 and time.monotonic() - began < 5
        assert act(service, "stop", before["id"])[0] == 200
        eventually(lambda: not children(service))  # which write and rename the files
        sizes = [entry.stat().st_size for entry in (tmp_path / "gameserver-logs").iterdir()]
        assert max(sizes) <= 1024 * 1024


def test_a_port_that_a_stranger_holds_is_not_handed_out(tmp_path: Path) -> None:
    with deploy(tmp_path) as service:
        city = hand_out(service, CITY)[1]["port"]
        eventually(lambda: answered(city))
        [before] = servers(service)
        assert act(service, "stop", before["id"])[0] == 200
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.bind(("127.0.0.1", city))
            assert hand_out(service, CITY)[0] == 503
        assert hand_out(service, CITY) == (200, {"host": "127.0.0.1", "port": city})


# slow: 40 s: a game server must have read nothing for five seconds, looked at every five
def test_a_neighbour_on_its_port_does_not_make_a_city_frozen(tmp_path: Path) -> None:
    with deploy(tmp_path, GAMESERVER_FROZEN_SECONDS="5") as service:
        city = hand_out(service, CITY)[1]["port"]
        eventually(lambda: answered(city))
        [before] = servers(service)
        with (
            socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as neighbour,
            socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender,
        ):
            neighbour.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            neighbour.bind(("::1", city))  # this socket reads nothing
            until = time.monotonic() + 20
            while time.monotonic() < until:
                sender.sendto(b"x" * 100, ("::1", city))
                assert answered(city)
                sender.settimeout(0.5)
                with suppress(TimeoutError):
                    sender.recv(1)
            assert servers(service) == [before]
        [pid] = of_the_port(city)
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: is_dead(pid))
        eventually(lambda: answered(city))
        assert "has read nothing for 5 s" in service.log


@pytest.mark.parametrize("name", CANNOT_RUN)
def test_the_doctor_tries_the_program_and_names_the_cause(name: str, tmp_path: Path) -> None:
    plant, words = CANNOT_RUN[name]
    binary = tmp_path / "game-server"
    plant(binary)
    binary.chmod(0o755)
    error = try_program(str(binary))
    assert error is not None
    assert words in cause(str(binary), error)


def test_the_doctor_does_not_run_the_game_server_it_checks(tmp_path: Path) -> None:
    flag = tmp_path / "ran"
    binary = program(tmp_path, "game-server", f"touch {flag}", "sleep 3600")
    folder = demo_host(tmp_path / "host")
    change(folder, "deploy", "GAMESERVER_BINARY_PATH", binary)
    assert "cannot be executed" not in svcctl("doctor", "--config", folder).out
    assert not flag.exists()
    Path(binary).write_text("#!/none/python\n")
    ran = svcctl("doctor", "--config", folder)
    assert f"{binary} needs the interpreter /none/python" in ran.out


def test_a_test_that_kills_its_deploy_server_leaves_no_game_server(tmp_path: Path) -> None:
    with deploy(tmp_path) as service:
        city = hand_out(service, CITY)[1]["port"]
        eventually(lambda: answered(city))
        [pid] = of_the_port(city)
        service.stop(signal.SIGKILL)
        assert not is_dead(pid)
    eventually(lambda: is_dead(pid))


def test_wines_shared_service_ends_with_the_deploy_server_alone(tmp_path: Path) -> None:
    note, service_of_wine = tmp_path / "wine", tmp_path / "wineserver"
    shutil.copy(shutil.which("sleep") or "", service_of_wine)
    first = f"[ -e {note} ] || (setsid {service_of_wine} 3600 >/dev/null 2>&1 & echo $! > {note})"
    binary = program(tmp_path, "wrapper", first, f'exec {SIMULATOR} "$@"')
    with deploy(tmp_path, GAMESERVER_BINARY_PATH=binary) as service:
        city = hand_out(service, CITY)[1]["port"]
        eventually(lambda: answered(city))
        shared = int(note.read_text())
        [before] = servers(service)
        assert act(service, "restart", before["id"])[0] == 200
        assert not is_dead(shared)
        service.stop()
        assert is_dead(shared)
