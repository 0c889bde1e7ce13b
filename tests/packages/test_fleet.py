"""From one machine to two, as docs/owners/fleet.md describes, with the release's image.

Each machine is a network namespace with an engine of its own. The tests run the owner's commands
exactly as printed; a stand-in for ssh runs commands on the second machine.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from svcserver.kernel.envfile import change
from tests.ctl.command import new_host
from tests.live.attacks.test_hunts import TUTORIAL
from tests.live.fleet_network import METAGAME, ServiceOn
from tests.live.swarm_engine import GAME, IMAGE, SwarmMachine, fleet
from tests.live.test_allowlist import ruleset
from tests.support.processes import bearer, eventually, register

pytestmark = pytest.mark.packages

PROGRAMS = Path(sys.executable).parent
LONG_S = 300.0
SSH = """#!/bin/sh
# ssh -C MACHINE COMMAND...
shift 2
DOCKER_HOST=unix://{socket} exec "$@"
"""


def on(machine: SwarmMachine, *words: object) -> list[str]:
    """Return a command line that runs a command in the network of a machine."""
    return ["nsenter", f"--net=/run/netns/{machine.namespace}", *map(str, words)]


def svcctl(machine: SwarmMachine, *words: object) -> str:
    command = on(machine, PROGRAMS / "svcctl", *words)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@contextmanager
def stack(machine: SwarmMachine, folder: Path) -> Iterator[None]:
    words = on(machine, PROGRAMS / "twistd", "--nodaemon", "--pidfile=", "svc-stack", "--config")
    with (folder / "out.log").open("ab") as log:
        process = subprocess.Popen([*words, str(folder)], cwd=folder, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def run_printed(printed: str, first: SwarmMachine, second: SwarmMachine, folder: Path) -> None:
    """Run the two commands that ``fleet invite`` prints: on the first machine, then the second."""
    copy, join = [line.strip() for line in printed.splitlines() if line.startswith("    docker ")]
    ssh = folder / "ssh"
    ssh.write_text(SSH.format(socket=second.socket))
    ssh.chmod(0o755)
    for machine, command in ((first, copy), (second, join)):
        environ = {**os.environ, "DOCKER_HOST": f"unix://{machine.socket}"}
        environ["PATH"] = f"{folder}:{environ['PATH']}"
        subprocess.run(["sh", "-c", command], env=environ, check=True, timeout=LONG_S)


@contextmanager
def engine_of_the_agent(machine: SwarmMachine) -> Iterator[None]:
    """Link to the machine's engine from the socket path where agents look for an engine.

    All machines of the test share one file system.
    """
    socket = Path("/var/run/docker.sock")
    if socket.exists():  # the socket of this machine's own engine, which has no game servers
        yield
        return
    socket.unlink(missing_ok=True)
    socket.symlink_to(machine.socket)
    try:
        yield
    finally:
        socket.unlink()


def test_second_machine_joins_by_the_printed_commands(tmp_path: Path, release: Path) -> None:
    host, game = new_host(tmp_path / "host"), tmp_path / "game"
    game.mkdir()
    (game / "server").write_text(GAME)
    (game / "server").chmod(0o755)
    [archive] = release.glob("*-image.tar")
    with fleet(2, joined=0) as (first, second), engine_of_the_agent(second):
        began = time.monotonic()
        change(host / "deploy.env", {"DOCKER_HOST": f"unix://{first.socket}"})
        change(host / "metagame.env", {"REGISTRATION_MODE": "OPEN"})
        (host / "stack.env").write_text("ALERTS_EVERY_SECONDS=5\n")
        load = ["docker", "-H", f"unix://{first.socket}", "load", "--quiet", "-i", str(archive)]
        subprocess.run(load, check=True, timeout=LONG_S)
        words = ("--config", host, "--program", game, "--binary", "server", "--base", IMAGE)
        svcctl(first, "fleet", "init", "--address", first.address, *words)
        with stack(first, host):
            metagame = ServiceOn("metagame", host, {}, METAGAME, namespace=first.namespace)
            eventually(lambda: "stack ready" in (host / "out.log").read_text(), LONG_S, 1)
            command = on(first, PROGRAMS / "svcctl", "fleet", "invite", "--config", host)
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as invite:
                assert invite.stdout is not None
                printed = "".join(iter(invite.stdout.readline, "Then run there:\n"))
                printed += "".join(invite.stdout.readline() for _ in range(2))
                run_printed(printed, first, second, tmp_path)
                assert invite.wait(60) == 0

            def shown() -> Any:
                key = {"x-svc-user-api-key": (host / "owner.key").read_text().strip()}
                status, body = metagame.ask("GET", "/svc/api/DashboardMachines", None, key)
                assert status == 200, body
                return {entry["id"]: entry for entry in orjson.loads(body)["machines"]}

            eventually(lambda: shown()[second.node]["agent"] == "connected", LONG_S, 1)
            assert time.monotonic() - began < 600
            first.docker("node", "update", "--availability", "pause", first.node)
            ann = register(metagame, "Ann_1")
            status, body = metagame.ask("POST", "/candidate/join", TUTORIAL, bearer(ann))
            assert status == 200, body

            def place() -> Any:
                _, body = metagame.ask("GET", "/candidate/status", None, bearer(ann))
                return orjson.loads(body).get("serverInfo")

            assert eventually(place, LONG_S, 1)["host"] == second.address
            assert "svc-game" in second.docker("ps", "--format", "{{.Image}}").stdout
            eventually(lambda: shown()[second.node]["gamePorts"] == "reachable", LONG_S, 1)
            entry = shown()[second.node]
            assert entry["hasImage"]
            assert abs(entry["clockSeconds"]) < 2
            assert faults(first, host) == []

            change(host / "allowlist.env", {"ALLOWLIST_DRY_RUN": "0"})
            [fault] = faults(first, host)
            assert "allowlist helper" in fault
            svcctl(first, "fleet", "invite", "--no-wait", "--config", host)
            guarded = "not tried: its firewall admits only players"
            eventually(lambda: shown()[second.node]["gamePorts"] == guarded, LONG_S, 1)
            eventually(lambda: "8770-8777 drop" in ruleset(on(second)), LONG_S, 1)
            assert faults(first, host) == []
            second.die()
            state = host / "host-state.json"
            eventually(lambda: f"({second.address}) is lost" in state.read_text(), LONG_S, 1)


def faults(machine: SwarmMachine, host: Path) -> list[str]:
    """Return the faults of the fleet that ``svcctl doctor`` finds; its exit status is then 1."""
    command = on(machine, PROGRAMS / "svcctl", "doctor", "--config", host, "--json")
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, check=False)
    return [
        finding["what"]
        for finding in orjson.loads(ran.stdout)["findings"]
        if (finding["component"], finding["level"]) == ("fleet", "wrong")
    ]
