"""A hunt on a second machine, which has its own network, engine and agent."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import orjson
import pytest

from svcserver.agent.service import LOST_S
from svcserver.ctl import fleet as ctl_fleet
from svcserver.ctl.fleet import AGENT_IMAGE, HELPER_FILE, TWISTD, Docker
from svcserver.kernel.envfile import change
from svcserver.stack.alerts.watching import installed_version
from tests.ctl.command import svcctl
from tests.live.attacks.test_hunts import TUTORIAL
from tests.live.fleet_network import GATEWAY, METAGAME, NetworkedHost, networked_host
from tests.live.swarm_engine import IMAGE, WIRE, SwarmMachine, fleet
from tests.live.swarm_engine import join as join_swarm
from tests.live.test_allowlist import crosses, ruleset
from tests.support.processes import Service, bearer, eventually, free_port, register

pytestmark = pytest.mark.live

ANNOUNCED, STRANGER, FRIEND = "203.0.113.7", "203.0.113.8", "203.0.113.9"  # addresses of PCs
PORT = 8770  # a game port that is free
TABLE = "svc_gameports"
NEW_IMAGE = "game:2"  # which only the host has


def sent_to(metagame: Service, player: dict[str, str], address_of_pc: str = "") -> str:
    """Return the address of the machine to which a player is sent, or an empty string."""
    headers = bearer(player)
    if address_of_pc:
        headers |= {"X-Forwarded-For": address_of_pc, "X-Svc-Gateway": GATEWAY}
    reply = orjson.loads(metagame.ask("GET", "/candidate/status", None, headers)[1])
    return str(reply["serverInfo"]["host"]) if reply["status"] == "IN_PROGRESS" else ""


def join(metagame: Service, player: dict[str, str]) -> str:
    """Send a player to a new game server; return the address of its machine."""
    status, body = metagame.ask("POST", "/candidate/join", TUTORIAL, bearer(player))
    assert status == 200, body
    return str(eventually(lambda: sent_to(metagame, player), pause_s=0.5))


def containers(machine: SwarmMachine) -> list[str]:
    return machine.docker("ps", "--format", "{{.Names}}").stdout.split()


def grant(machine: SwarmMachine, container: str, account: str) -> str:
    """Return what the metagame answers to a machine's game server, which acts for a player."""
    key = machine.docker("exec", container, "/bin/cat", "/tmp/arguments").stdout.split()[0]
    words = ["/bin/busybox", "wget", "-q", "-O", "-", "--post-data", "{}"]
    words += ["--header", f"x-svc-gameserver-apikey: {key}"]
    url = f"http://127.0.0.1:{METAGAME}/progression/{account}"
    reply = machine.docker("exec", container, *words, url, check=False)
    return reply.stdout + reply.stderr


# slow: 50 s: the engines of two machines start
def test_a_hunt_on_another_machine_writes_and_ends_when_cut_off(tmp_path: Path) -> None:
    with fleet(2, joined=2) as (first, second):
        first.docker("node", "update", "--availability", "pause", first.node)
        with networked_host(tmp_path, first, second, HUNT_WORKER="1") as host:
            metagame, agent = host.metagame, host.agent(second)
            ann, eve = register(metagame, "Ann_1"), register(metagame, "Eve_1")
            assert join(metagame, ann) == second.address
            [hunt] = containers(second)
            assert '"code":"OK"' in grant(second, hunt, ann["id"])
            assert "403" in grant(second, hunt, eve["id"])

            first.docker("node", "update", "--availability", "active", first.node)
            second.connect("down")
            began = time.monotonic()
            eventually(lambda: containers(second) == [], pause_s=0.5)
            assert time.monotonic() - began > LOST_S - 15
            assert join(metagame, ann) == first.address

            second.connect("up")
            eventually(lambda: "is connected to the host and the swarm again" in agent.log)


def within(machine: SwarmMachine | str) -> list[str]:
    """Return the command prefix that runs a command in a machine's network or in a namespace."""
    name = machine if isinstance(machine, str) else machine.namespace
    return ["nsenter", f"--net=/run/netns/{name}", "--"]


def add_players_network(machine: SwarmMachine) -> None:
    """Add a public address to the machine, and two players' addresses to the machine's network."""
    for space, address, device in (
        (machine.namespace, "203.0.113.1", "eth0"),
        (WIRE, ANNOUNCED, "wire"),
        (WIRE, STRANGER, "wire"),
        (WIRE, FRIEND, "wire"),
    ):
        words = ["ip", "-n", space, "address", "add", f"{address}/24", "dev", device]
        subprocess.run(words, check=True, timeout=20)


def is_open(machine: SwarmMachine, source: str) -> bool:
    """Return whether a datagram from ``source`` reaches a game port of the machine."""
    return crosses(within(WIRE), within(machine), source, PORT)


def make_owners_folder(host: NetworkedHost) -> Path:
    """Write the env files that ``svcctl`` reads for the running services and an allowlist helper.

    Return the folder that holds them.
    """
    folder = host.folder / "host"
    settings = {
        # its metagame is in another network, so that svcctl does not reach it
        "metagame": {**host.metagame.environ, "PORT": str(free_port())},
        "deploy": host.deploy.environ,
        "allowlist": {"ALLOWLIST_DRY_RUN": "0", "ALLOWLIST_SECRET": "h" * 40},
    }
    for name, values in settings.items():
        lines = (f"{key}={value}\n" for key, value in values.items())
        (folder / f"{name}.env").write_text("".join(lines))
    return folder


def mounts(folder: Path) -> list[str]:
    """Return the options with which this Python and nft run in a container of the small image."""
    program = folder / "bin" / "twistd"
    program.parent.mkdir(exist_ok=True)
    here = Path(sys.executable).with_name("twistd")
    program.write_text(f'#!/bin/sh\nexec {here} "$@"\n')
    program.chmod(0o755)
    same = {
        Path(__file__).parents[2],
        Path(sys.prefix),
        Path(sys.base_prefix) if sys.base_prefix != "/usr" else Path("/usr/bin"),
        Path("/usr/sbin"),
        *Path("/usr/lib").glob("python3*"),
    }
    places = {path: path for path in same} | {
        Path("/lib64"): Path("/lib64"),
        Path("/usr/lib"): Path("/lib"),
        program.parent: Path(TWISTD).parent,
    }
    return [
        word
        for source, target in places.items()
        for word in ("--mount", f"type=bind,source={source.resolve()},target={target},readonly")
    ]


# slow: 150 s: the engines of two machines start
def test_a_node_admits_only_players_sent_to_it(tmp_path: Path) -> None:
    with fleet(2, joined=2) as (first, second):
        add_players_network(second)
        first.docker("node", "update", "--availability", "pause", first.node)
        with networked_host(tmp_path, first, second, HUNT_WORKER="1") as host:
            folder, mounted = make_owners_folder(host), mounts(tmp_path)
            run = Docker.run

            def run_in_test(docker: Docker, *words: str, sent: bytes | None = None) -> str:
                if words[:2] == ("service", "create"):
                    words = (*words[:2], *mounted, *words[2:])
                return run(docker, *words, sent=sent)

            def ctl(*words: str) -> str:
                # other tests may run beside this one
                late = mock.patch.object(ctl_fleet, "START_S", 120.0)
                engine = mock.patch.object(ctl_fleet, "ENGINE", second.socket)
                with mock.patch.object(Docker, "run", run_in_test), late, engine:
                    ran = svcctl("fleet", *words, "--config", folder)
                assert ran.status == 0, ran.err
                return ran.out

            def containers_of(program: str) -> str:
                words = ("ps", "--quiet", "--filter", f"name={program}-")
                return second.docker(*words).stdout.strip()

            def helper() -> str:
                return str(eventually(lambda: containers_of("svc-allowlist"), pause_s=0.5))

            assert is_open(second, STRANGER)
            for image in (NEW_IMAGE, f"{AGENT_IMAGE}:{installed_version()}"):
                first.docker("tag", IMAGE, image)
            ctl("invite", "--no-wait", "--agent-image", IMAGE)
            assert not is_open(second, ANNOUNCED)
            ann, bob = (register(host.metagame, name) for name in ("Ann_1", "Bob_1"))
            for player in (ann, bob):
                assert join(host.metagame, player) == second.address
            for player, address in ((ann, ANNOUNCED), (bob, FRIEND)):
                assert sent_to(host.metagame, player, address) == second.address
                assert address in ruleset(within(second))
            assert is_open(second, ANNOUNCED)
            assert is_open(second, FRIEND)
            assert not is_open(second, STRANGER)

            # its secret is nowhere else
            before = helper()
            secret = second.docker("exec", before, "/bin/cat", HELPER_FILE).stdout.strip()
            assert len(secret) > 40
            shown = first.docker("service", "inspect", *first.names("service")).stdout
            shown += first.docker("service", "logs", f"svc-allowlist-{second.node}").stdout
            shown += subprocess.run(["ps", "-ef"], capture_output=True, text=True).stdout
            assert secret.partition("=")[2] not in shown

            # it crashes
            second.docker("kill", before)
            assert eventually(lambda: helper() != before, 60, 0.5)
            assert is_open(second, ANNOUNCED)
            assert not is_open(second, STRANGER)

            # the host's settings change
            name = f"svc-allowlist-{second.node}"
            added, agent = "LOG_LEVEL=debug", containers_of("svc-agent")
            first.docker("service", "update", "--detach", "--env-add", added, name)
            change(folder / "allowlist.env", {"ALLOWLIST_PORTS": f"{PORT - 1}-8777"})
            ctl("invite", "--no-wait")
            assert added in first.docker("service", "inspect", name).stdout
            assert f"dport {PORT - 1}-8777 drop" in ruleset(within(second))
            assert containers_of("svc-agent") == agent
            eventually(lambda: ANNOUNCED in ruleset(within(second)), pause_s=0.5)
            assert not is_open(second, STRANGER)

            # a machine that drains keeps its helper, and so does one without the new image
            change(folder / "allowlist.env", {"ALLOWLIST_PORTS": f"{PORT - 2}-8777"})
            first.docker("node", "update", "--availability", "pause", second.node)
            assert "is draining. Run this again" in ctl("invite", "--no-wait")
            first.docker("node", "update", "--availability", "active", second.node)
            with pytest.raises(AssertionError, match=f"No such image: {NEW_IMAGE}. Copy the image"):
                ctl("invite", "--no-wait", "--agent-image", NEW_IMAGE)
            eventually(lambda: containers_of("svc-agent"), pause_s=0.5)
            assert TABLE in ruleset(within(second))
            ctl("invite", "--no-wait")
            assert f"dport {PORT - 2}-8777 drop" in ruleset(within(second))

            ctl("remove", second.node, "--force")
            eventually(lambda: TABLE not in ruleset(within(second)), pause_s=0.5)
            assert is_open(second, STRANGER)
            eventually(lambda: first.names("secret") == [] == first.names("service"), pause_s=0.5)

            # it leaves without being removed
            second.docker("swarm", "leave")
            join_swarm(second, first)
            ctl("invite", "--no-wait", "--agent-image", IMAGE)
            node = second.node
            second.docker("swarm", "leave")
            assert not is_open(second, STRANGER)
            commands = ctl("remove", node, "--force").partition("Run there: ")[2]
            commands = commands.replace("docker run", f"docker run {shlex.join(mounted)}")
            environ = {**os.environ, "DOCKER_HOST": f"unix://{second.socket}"}
            for _ in range(2):
                subprocess.run(commands, shell=True, check=True, env=environ)  # noqa: S602
            assert is_open(second, STRANGER)
