"""A Docker engine of the test's own, with a swarm of one machine and a game-server image."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field

from tests.support.processes import eventually
from tests.support.requirements import skip

ENTRYPOINT = Path(__file__).parents[2] / "svcserver/deploy/data/gameserver-entrypoint.sh"
BUSYBOX = Path("/bin/busybox")  # Debian's busybox-static
IMAGE = "game:1"
# prints its arguments to the first TCP client, and then ends
GAME = """#!/bin/sh
echo "$@" > /tmp/arguments
trap 'exit 0' TERM
nc -l -p "$2" -e /bin/cat /tmp/arguments &
wait $!
"""


@define
class SwarmMachine:
    """A ``dockerd`` below ``folder``, on loopback addresses only."""

    folder: Path
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def socket(self) -> str:
        return str(self.folder / "sock")

    def start(self) -> None:
        words = ["dockerd", "--data-root", str(self.folder / "data")]
        words += ["--exec-root", str(self.folder / "exec"), "-H", f"unix://{self.socket}"]
        words += ["--pidfile", str(self.folder / "pid"), "--storage-driver=vfs"]
        words += ["--iptables=false", "--ip6tables=false", "--bridge=none"]
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

    def docker(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = ["docker", "-H", f"unix://{self.socket}", *words]
        return subprocess.run(command, capture_output=True, text=True, check=check, timeout=60)

    def names(self, what: str) -> list[str]:
        """Return the names of all services or secrets."""
        return sorted(self.docker(what, "ls", "--format", "{{.Name}}").stdout.split())

    def tasks(self) -> list[dict[str, Any]]:
        """Return the engine's tasks."""
        with socket.socket(socket.AF_UNIX) as wire:
            wire.settimeout(20)
            wire.connect(self.socket)
            wire.sendall(b"GET /v1.41/tasks HTTP/1.0\r\nHost: docker\r\n\r\n")
            reply = b"".join(iter(lambda: wire.recv(65_536), b""))
        tasks: list[dict[str, Any]] = orjson.loads(reply.partition(b"\r\n\r\n")[2])
        return tasks

    def make_image(self) -> None:
        root = self.folder / "root"
        (root / "bin").mkdir(parents=True)
        (root / "tmp").mkdir()
        shutil.copy(BUSYBOX, root / "bin/busybox")
        for name in ("sh", "cat", "nc", "sleep"):
            (root / "bin" / name).symlink_to("busybox")
        shutil.copy(ENTRYPOINT, root / "entrypoint")
        (root / "game").write_text(GAME)
        for name in ("entrypoint", "game"):
            (root / name).chmod(0o755)
        archive = self.folder / "image.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(root, ".")
        entry = 'ENTRYPOINT ["/entrypoint"]'
        self.docker("import", "--change", entry, str(archive), IMAGE)


@contextmanager
def swarm_machine() -> Iterator[SwarmMachine]:
    """Start an engine and its swarm, and remove both at the end; skip where that is impossible."""
    if os.geteuid() != 0:
        raise skip("docker", "dockerd needs root")
    for program in ("dockerd", "docker", "runc"):
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
            raise skip("docker", f"{program} is missing; install docker.io")
    if not BUSYBOX.exists():
        raise skip("docker", "install busybox-static")
    # pytest's folders are too long for the paths of containerd's sockets
    with tempfile.TemporaryDirectory(prefix="svc-docker-") as folder:
        yield from _running(SwarmMachine(Path(folder)))


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
    """Return what the game server on this port prints to a client; empty if there is none."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as wire:
        wire.settimeout(5)
        return wire.recv(4096).decode()
    return ""
