"""The allowlist helper as a real process, and real nftables in a network namespace.

Real processes are needed because the helper needs its own capability.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.attacks.own_network import unshared
from tests.support import prestarted
from tests.support.processes import eventually, free_port
from tests.support.proves import proves
from tests.support.requirements import skip

SECRET = "s" * 40
PROGRAMS = ("nft", "iptables", "ipset")
ASK = """
import sys, urllib.request
url, secret, body = sys.argv[1:]
request = urllib.request.Request(url, body.encode() or None, {"x-allowlist-secret": secret})
sys.stdout.buffer.write(urllib.request.urlopen(request, timeout=10).read())
"""


class Helper:
    """A running ``svc-allowlist``, optionally in its own network namespace."""

    def __init__(self, folder: Path, prefix: list[str], **more: str) -> None:
        self.folder, self.port, self.prefix = folder, free_port(), prefix
        self.environ = {
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            "ALLOWLIST_SECRET": SECRET,
            "ALLOWLIST_PORT": str(self.port),
            "ALLOWLIST_DRY_RUN": "0",
            # the helper searches only the system's folders for programs
            **{
                f"ALLOWLIST_{name.upper()}": shutil.which(name) or f"/usr/sbin/{name}"
                for name in PROGRAMS
            },
            "ALLOWLIST_MIN_INTERVAL_MS": "50",
            "ALLOWLIST_AUDIT_LOG": str(folder / "audit.log"),
            "ALLOWLIST_STATE_FILE": str(folder / "state.json"),
            **more,
        }
        self.log = folder / f"out-{self.port}.log"
        twistd = str(Path(sys.executable).with_name("twistd"))
        words = ["--nodaemon", "--pidfile=", "svc-allowlist"]
        with open(self.log, "ab") as out:
            self.process = (
                subprocess.Popen(
                    [*prefix, twistd, *words],
                    env=self.environ,
                    cwd=folder,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
                if prefix
                else prestarted.start(words, self.environ, folder, out.fileno())
            )
        eventually(lambda: b"ready" in self.log.read_bytes() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()

    def ask(self, path: str, ip: str | None = None) -> dict[str, Any]:
        body = None if ip is None else json.dumps({"ip": ip}).encode()
        url = f"http://127.0.0.1:{self.port}{path}"
        if not self.prefix:
            head = {"x-allowlist-secret": SECRET}
            request = urllib.request.Request(url, body, head)
            with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310 - our own URL
                replies: dict[str, Any] = json.loads(reply.read())
                return replies
        command = [sys.executable, "-c", ASK, url, SECRET, "" if body is None else body.decode()]
        out = subprocess.run([*self.prefix, *command], capture_output=True, timeout=20, check=True)
        document: dict[str, Any] = json.loads(out.stdout)
        return document

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        # after stopping, twistd ends itself with the signal that it received
        ended = self.process.wait(30)
        assert ended in (0, -signal.SIGTERM), self.log.read_text()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


@proves("allowlist: audit log and dry run")
def test_a_dry_run_as_a_real_process_restores_its_state(tmp_path: Path) -> None:
    helper = Helper(tmp_path, [], ALLOWLIST_DRY_RUN="1")
    try:
        assert helper.ask("/allow", "203.0.113.7")["added"] is True
        eventually(lambda: not helper.ask("/status")["pending"])
    finally:
        helper.kill()
    again = Helper(tmp_path, [], ALLOWLIST_DRY_RUN="1")
    try:
        assert [entry["ip"] for entry in again.ask("/status")["entries"]] == ["203.0.113.7"]
        again.stop()
    finally:
        again.kill()
    text = (tmp_path / "audit.log").read_text()
    assert '"event":"dry_run"' in text and '"event":"stop"' in text
    assert SECRET not in text + helper.log.read_text() + again.log.read_text()


def test_a_taken_port_and_a_missing_secret_end_the_start_with_a_line(tmp_path: Path) -> None:
    twistd = str(Path(sys.executable).with_name("twistd"))
    command = [twistd, "--nodaemon", "--pidfile=", "svc-allowlist"]
    base = {"PATH": os.environ["PATH"], "ALLOWLIST_DRY_RUN": "1"}
    out = subprocess.run(
        command, env=base, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert out.returncode != 0
    assert "ALLOWLIST_SECRET is not set" in out.stderr + out.stdout
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        more = {"ALLOWLIST_SECRET": SECRET, "ALLOWLIST_PORT": str(taken.getsockname()[1])}
        out = subprocess.run(
            command,
            env={**base, **more},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert out.returncode != 0
    assert "Could not listen" in out.stderr + out.stdout


def need_iptables(prefix: list[str]) -> None:
    """Skip the test if the machine has no ipset; some machines have only nftables."""
    probe = "create svc-probe hash:ip\ndestroy svc-probe\n"
    tried = None
    if shutil.which("ipset") and shutil.which("iptables"):
        tried = subprocess.run(
            [*prefix, "ipset", "restore"], input=probe.encode(), capture_output=True, check=False
        )
    if tried is None or tried.returncode != 0:
        raise skip("netns", "this machine has no iptables with ipset")


@contextmanager
def network(enter: list[str], user: bool) -> Iterator[tuple[int, list[str]]]:
    """Start a network namespace.

    Yield the pid of the process that keeps the namespace alive, and the command prefix that runs a
    command in it.
    """
    holder = subprocess.Popen(
        [*enter, "sh", "-c", "ip link set lo up && echo up && exec sleep 600"],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"up\n"
        prefix = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
        if user:
            prefix += [f"--user=/proc/{holder.pid}/ns/user", "--preserve-credentials"]
        yield holder.pid, [*prefix, "--"]
    finally:
        holder.stdout.close()
        holder.kill()
        holder.wait(10)


@pytest.fixture
def namespace() -> Iterator[list[str]]:
    """Yield the command prefix that runs a command in a new network namespace with loopback up."""
    for program in ("nsenter", "nft", "ip"):
        if shutil.which(program) is None:
            raise skip("netns", f"{program} is not installed")
    enter = unshared()
    with network(enter, "--map-root-user" in enter) as (_, prefix):
        probe = "add table inet probe\ndelete table inet probe\n"
        tried = subprocess.run(
            [*prefix, "nft", "-f", "-"], input=probe.encode(), capture_output=True, check=False
        )
        if tried.returncode != 0:
            raise skip("netns", "this machine allows no network namespace with nftables")
        yield prefix


def ruleset(prefix: list[str]) -> str:
    command = [*prefix, "nft", "list", "ruleset"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout


@proves("allowlist: backends")
def test_nftables_opens_for_a_reported_address_and_shuts_on_stop(
    namespace: list[str], tmp_path: Path
) -> None:
    helper = Helper(tmp_path, namespace, ALLOWLIST_TTL_SECONDS="600")
    try:
        eventually(lambda: not helper.ask("/status")["pending"])
        before = ruleset(namespace)
        assert "table inet svc_gameports" in before
        assert "udp dport 8770-8777 drop" in before
        helper.ask("/allow", "203.0.113.7")
        helper.ask("/allow", "2001:db8::7")
        eventually(lambda: not helper.ask("/status")["pending"])
        status = helper.ask("/status")
        assert status["lastApply"]["ok"] is True and status["backend"] == "nftables"
        opened = ruleset(namespace)
        assert "203.0.113.7" in opened and "2001:db8::7" in opened
        flush = [*namespace, "nft", "flush", "ruleset"]  # as a reload of the host's own firewall
        subprocess.run(flush, check=True, capture_output=True, timeout=20)
        assert "svc_gameports" not in ruleset(namespace)
        eventually(lambda: "203.0.113.7" in ruleset(namespace))
        helper.stop()
        shut = ruleset(namespace)
        assert "203.0.113.7" not in shut and "udp dport 8770-8777 drop" in shut
    finally:
        helper.kill()


@proves("event: ports open for an address for 10 minutes")
def test_a_set_of_the_owners_own_table_is_filled_and_emptied(
    namespace: list[str], tmp_path: Path
) -> None:
    own = "table inet filter {\n set players { type ipv6_addr; elements = { 2001:db8::9 } }\n}\n"
    load = [*namespace, "nft", "-f", "-"]
    subprocess.run(load, input=own.encode(), check=True, capture_output=True, timeout=20)
    helper = Helper(tmp_path, namespace, ALLOWLIST_NFT_SET="inet filter players")
    try:
        eventually(lambda: not helper.ask("/status")["pending"])
        assert "2001:db8::9" not in ruleset(namespace)
        for ip in ("203.0.113.7", "2001:db8::7"):
            helper.ask("/allow", ip)
        eventually(lambda: not helper.ask("/status")["pending"])
        assert helper.ask("/status")["lastApply"]["ok"] is True
        opened = ruleset(namespace)
        assert "2001:db8::7" in opened and "203.0.113.7" not in opened, "it holds IPv6 alone"
        assert "svc_gameports" not in opened
        helper.stop()
        assert "2001:db8::7" not in ruleset(namespace)
    finally:
        helper.kill()


@proves(
    "allowlist: POST /allow",
    "event: ports open for an address for 10 minutes",
    "allowlist: backends",
)
@pytest.mark.parametrize("backend", ["nftables", "iptables"])
def test_the_kernel_lets_only_the_reported_address_through(
    backend: str, namespace: list[str], tmp_path: Path
) -> None:
    if backend == "iptables":
        need_iptables(namespace)
    with network([*namespace, "unshare", "--net"], user=False) as (pid, prefix):
        outside = [*namespace, *prefix]
        join(namespace, outside, pid)
        helper = Helper(tmp_path, namespace, ALLOWLIST_BACKEND=backend)
        try:
            eventually(lambda: not helper.ask("/status")["pending"])
            assert not crosses(outside, namespace, "203.0.113.7", 8771)
            helper.ask("/allow", "203.0.113.7")
            eventually(lambda: not helper.ask("/status")["pending"])
            assert crosses(outside, namespace, "203.0.113.7", 8771)
            assert not crosses(outside, namespace, "203.0.113.8", 8771)
            assert crosses(outside, namespace, "203.0.113.8", 9999), "other ports are not ours"
            helper.stop()
            assert not crosses(outside, namespace, "203.0.113.7", 8771)
        finally:
            helper.kill()


def join(inside: list[str], outside: list[str], pid: int) -> None:
    """Connect the two namespaces; the host has the address .1, and players have .7 and .8."""
    steps = [
        [*inside, "ip", "link", "add", "host0", "type", "veth", "peer", "name", "far0"],
        [*inside, "ip", "link", "set", "far0", "netns", str(pid)],
        [*inside, "ip", "addr", "add", "203.0.113.1/24", "dev", "host0"],
        [*inside, "ip", "link", "set", "host0", "up"],
        [*outside, "ip", "addr", "add", "203.0.113.7/24", "dev", "far0"],
        [*outside, "ip", "addr", "add", "203.0.113.8/24", "dev", "far0"],
        [*outside, "ip", "link", "set", "far0", "up"],
    ]
    for step in steps:
        subprocess.run(step, check=True, capture_output=True, timeout=20)


def crosses(outside: list[str], inside: list[str], source: str, port: int) -> bool:
    """Return whether a datagram from the address ``source`` reaches the host's UDP ``port``."""
    listen = (
        "import socket,sys\n"
        "a=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
        f"a.bind(('203.0.113.1',{port}));a.settimeout(1.0)\n"
        "print('up',flush=True)\n"
        "sys.stdin.readline()\n"  # the datagrams have been sent
        "try:\n a.recv(9)\nexcept TimeoutError:\n sys.exit(3)\n"
    )
    send = (
        "import socket\n"
        "b=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
        f"b.bind(('{source}',0))\n"
        f"for _ in range(3): b.sendto(b'x',('203.0.113.1',{port}))\n"
    )
    with subprocess.Popen(
        [*inside, sys.executable, "-c", listen],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as receiver:
        assert receiver.stdout is not None and receiver.stderr is not None
        assert receiver.stdout.readline() == b"up\n", receiver.stderr.read()
        subprocess.run([*outside, sys.executable, "-c", send], check=True, timeout=20)
        receiver.communicate(b"sent\n", timeout=20)
    assert receiver.returncode in (0, 3)
    return receiver.returncode == 0


@proves("allowlist: hard kill")
def test_after_a_hard_kill_the_owner_can_shut_the_ports(
    namespace: list[str], tmp_path: Path
) -> None:
    helper = Helper(tmp_path, namespace)
    try:
        helper.ask("/allow", "203.0.113.7")
        eventually(lambda: not helper.ask("/status")["pending"])
        helper.kill()
        assert "203.0.113.7" in ruleset(namespace)
        script = (
            "import os\n"
            "from svcserver.allowlist.service import close_ports\n"
            "from svcserver.allowlist.settings import AllowlistSettings\n"
            "from svcserver.kernel.settings import load\n"
            "print(close_ports(load(AllowlistSettings, os.environ)[0]))\n"
        )
        ended = subprocess.run(
            [*namespace, sys.executable, "-c", script],
            env=helper.environ,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout == "UDP ports 8770-8777 are closed\n"
        assert "203.0.113.7" not in ruleset(namespace)
        assert '"event":"closed_ports"' in (tmp_path / "audit.log").read_text()
    finally:
        helper.kill()
