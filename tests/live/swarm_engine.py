"""A separate Docker engine for the tests, with a swarm of one machine and a game-server image."""

import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field

from svcserver.ctl.fleet import TWISTD
from tests.support.processes import eventually
from tests.support.requirements import skip

ENTRYPOINT = Path(__file__).parents[2] / "svcserver/deploy/data/gameserver-entrypoint.sh"
BUSYBOX = Path("/bin/busybox")  # Debian's busybox-static
IMAGE = "game:1"
SPACE = f"svc-{os.getpid() % 100_000}"  # several processes may run such tests
WIRE = f"{SPACE}-wire"
# prints its arguments to the first TCP client, and then ends
GAME = """#!/bin/sh
echo "$@" > /tmp/arguments
trap 'exit 0' TERM
nc -l -p "$2" -e /bin/cat /tmp/arguments &
wait $!
"""


@define
class SwarmMachine:
    """A ``dockerd`` below ``folder``, on loopback addresses or in a network namespace.

    If ``networks`` is true, containers have their own networks, for which the engine changes the
    namespace's firewall.
    """

    folder: Path
    address: str = "127.0.0.1"
    namespace: str = ""
    networks: bool = False
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def socket(self) -> str:
        return str(self.folder / "sock")

    def start(self) -> None:
        words = ["dockerd", "--data-root", str(self.folder / "data")]
        words += ["--exec-root", str(self.folder / "exec"), "-H", f"unix://{self.socket}"]
        words += ["--pidfile", str(self.folder / "pid")]
        if not self.networks:
            words += ["--iptables=false", "--ip6tables=false", "--bridge=none"]
            words += ["--storage-driver=vfs"]
        if self.namespace:
            words = ["nsenter", f"--net=/run/netns/{self.namespace}", *words]
        with (self.folder / "dockerd.log").open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        eventually(self.answers)

    def answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "dockerd.log").read_text()[-3000:]
        return self.docker("version", check=False).returncode == 0

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)

    def die(self) -> None:
        """Kill every process of the machine, as a power cut does."""
        for pid in map(int, _run("ip", "netns", "pids", self.namespace).stdout.split()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.stop()

    def connect(self, state: str) -> None:
        """Connect the machine to its network (``up``), or disconnect it (``down``)."""
        _run("ip", "-n", WIRE, "link", "set", f"{self.namespace}-w", state)

    def hunts(self) -> list[str]:
        """Return the ids of the matches whose hunts run in containers on this machine."""
        words = ["ps", "--filter", "label=svc.kind=hunt", "--format", '{{.Label "svc.match"}}']
        return sorted(self.docker(*words).stdout.split())

    def docker(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = ["docker", "-H", f"unix://{self.socket}", *words]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert result.returncode == 0 or not check, result.stderr
        return result

    @property
    def node(self) -> str:
        """The id of the machine in the swarm."""
        return self.docker("info", "--format", "{{.Swarm.NodeID}}").stdout.strip()

    def names(self, what: str) -> list[str]:
        """Return the names of all services or secrets."""
        return sorted(self.docker(what, "ls", "--format", "{{.Name}}").stdout.split())

    def entries(self, path: str) -> list[dict[str, Any]]:
        """Return the engine's list of tasks or containers."""
        with socket.socket(socket.AF_UNIX) as wire:
            wire.settimeout(20)
            wire.connect(self.socket)
            wire.sendall(f"GET /v1.41/{path} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
            reply = b"".join(iter(lambda: wire.recv(65_536), b""))
        result: list[dict[str, Any]] = orjson.loads(reply.partition(b"\r\n\r\n")[2])
        return result

    def make_image(self, game: str = GAME) -> None:
        root = self.folder / "root"
        (root / "bin").mkdir(parents=True)
        for name in ("tmp", "etc"):
            (root / name).mkdir()
        (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
        shutil.copy(BUSYBOX, root / "bin/busybox")
        for name in ("sh", "cat", "nc", "httpd", "sleep", "hostname"):
            (root / "bin" / name).symlink_to("busybox")
        shutil.copy(ENTRYPOINT, root / "entrypoint")
        (root / "game").write_text(game)
        agent = root / TWISTD.removeprefix("/")
        agent.parent.mkdir(parents=True)
        agent.write_text("#!/bin/sh\nexec /bin/sleep 600\n")
        for path in (root / "entrypoint", root / "game", agent):
            path.chmod(0o755)
        archive = self.folder / "image.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(root, ".")
        entry = 'ENTRYPOINT ["/entrypoint"]'
        self.docker("import", "--change", entry, str(archive), IMAGE)


def check_requirements() -> None:
    """Skip the test if no engine can be started."""
    if os.geteuid() != 0:
        raise skip("docker", "dockerd needs root")
    for program in ("dockerd", "docker", "runc", "ip"):
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
            raise skip("docker", f"{program} is missing; install docker.io and iproute2")
    if not BUSYBOX.exists():
        raise skip("docker", "install busybox-static")


@contextmanager
def swarm_machine() -> Iterator[SwarmMachine]:
    """Start an engine and its swarm, and remove both at the end.

    Skip the test if no engine can be started.
    """
    check_requirements()
    # pytest's folders are too long for the paths of containerd's sockets
    with tempfile.TemporaryDirectory(prefix="svc-docker-") as folder:
        yield from _running(SwarmMachine(Path(folder)))


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)


@contextmanager
def fleet(
    count: int, joined: int, game: str = GAME, *, networks: bool = False
) -> Iterator[list[SwarmMachine]]:
    """Start engines, each in its own network; the first ``joined`` form a swarm."""
    check_requirements()
    with tempfile.TemporaryDirectory(prefix="svc-docker-") as folder, ExitStack() as ends:
        ends.callback(_remove_namespace, WIRE)
        _run("ip", "netns", "add", WIRE)
        _run("ip", "-n", WIRE, "link", "add", "wire", "type", "bridge")
        _run("ip", "-n", WIRE, "link", "set", "wire", "up")
        machines = []
        for number in range(1, count + 1):
            place, address = Path(folder) / str(number), f"10.99.0.{number}"
            machine = SwarmMachine(place, address, f"{SPACE}-{number}", networks)
            machines.append(machine)
            ends.callback(_remove, machine)
            _add_namespace(machine)
            machine.folder.mkdir()
            machine.start()
            machine.make_image(game)
        if joined:
            address = ("--advertise-addr", machines[0].address)
            machines[0].docker("swarm", "init", *address, "--dispatcher-heartbeat", "2s")
        for machine in machines[1:joined]:
            join(machine, machines[0])
        yield machines


def join(machine: SwarmMachine, manager: SwarmMachine) -> None:
    token = manager.docker("swarm", "join-token", "-q", "worker").stdout.strip()
    where = ("--advertise-addr", machine.address, f"{manager.address}:2377")
    machine.docker("swarm", "join", "--token", token, *where)


def _add_namespace(machine: SwarmMachine) -> None:
    name, cable = machine.namespace, f"{machine.namespace}-w"
    _run("ip", "netns", "add", name)
    _run("ip", "link", "add", "eth0", "netns", name, "type", "veth", "peer", cable,
         "netns", WIRE)  # fmt: skip
    _run("ip", "-n", WIRE, "link", "set", cable, "master", "wire", "up")
    _run("ip", "-n", name, "address", "add", f"{machine.address}/24", "dev", "eth0")
    for device in ("lo", "eth0"):
        _run("ip", "-n", name, "link", "set", device, "up")


def _remove(machine: SwarmMachine) -> None:
    machine.die()
    _unmount(machine.folder)
    _remove_namespace(machine.namespace)


def _remove_namespace(name: str) -> None:
    subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _running(machine: SwarmMachine) -> Iterator[SwarmMachine]:
    try:
        machine.start()
        machine.make_image()
        machine.docker(
            "swarm", "init", "--advertise-addr", "127.0.0.1", "--listen-addr", "127.0.0.1:2377"
        )
        yield machine
    finally:
        if machine.process is not None and machine.process.poll() is None:
            machine.docker("swarm", "leave", "--force", check=False)
        machine.stop()
        _unmount(machine.folder)


def _unmount(folder: Path) -> None:
    """Remove the mounts that dockerd leaves below its folder."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted(mounts, reverse=True):
        if mount.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", mount], check=False)


def talk(port: int) -> str:
    """Return what the game server on this port sends to a client, or "" if none runs."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as wire:
        wire.settimeout(5)
        return wire.recv(4096).decode()
    return ""
