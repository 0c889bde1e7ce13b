"""The program behind ``make doctor``: it lists what the checks need and this machine lacks.

It prints a remedy for each missing requirement. Missing programs do not fail ``make test``: the
tests that need them are skipped with a message, unless SVC_TEST_REQUIRE requires them
(``.ci/run``). Programs that only packaging needs are not reported as faults.
"""

import platform
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import frozen

from tests import tools

NETWORK = ["unshare", "--map-root-user", "--net", "true"]
FILES = 2_560  # as many as tests/live/test_gateway_abuse.py opens
ROOM = 2 << 30
SUITE = "bookworm"  # the Debian release on which packaging/suite.py makes a release
MEMORY = 2 << 30  # bytes for each worker's services, with a browser beside them


@frozen
class Finding:
    """A checked requirement, which is met if ``fault`` is empty."""

    what: str
    fault: str = ""
    cure: str = ""
    tests: bool = True  # whether tests need it, not only packaging

    def __str__(self) -> str:
        if not self.fault:
            return f"  well     {self.what}"
        return f"  {'missing' if self.tests else 'without'}  {self.what}: {self.fault}; {self.cure}"


@frozen
class Machine:
    """The functions that examine the machine; tests replace them."""

    find: Callable[[str], str | None]
    run: Callable[[list[str]], bool]
    free: Callable[[str], int]
    memory: Callable[[], int]
    files: Callable[[], int]
    binds: Callable[[str], bool]
    suite: Callable[[], str]
    version: tuple[int, int] = (sys.version_info[0], sys.version_info[1])


INSTALLED = "make .venv/tools.stamp"
# what is missing, its program, the tests that need it, the cure
PROGRAMS = (
    ("PostgreSQL", "initdb", "every feature once more on PostgreSQL", "postgresql"),
    ("Valkey or Redis", "redis-server", "live state on a real engine", "redis-server"),
    ("Node", "node", "chat clients in JavaScript", "nodejs"),
    ("Chromium", "chromium", "the dashboard in a browser", "chromium-headless-shell"),
    ("nft", "nft", "the real firewall", "nftables"),
    ("iptables", "iptables", "the firewall of an older machine", "iptables"),
    ("ipset", "ipset", "the firewall of an older machine", "ipset"),
    ("ip", "ip", "the real firewall", "iproute2"),
    ("curl", "curl", "content through the gateway", "curl"),
    ("openssl", "openssl", "the gateway's TLS", "openssl"),
    ("Wine", "wine", "the launcher for Windows", "wine wine64"),
    ("systemd-analyze", "systemd-analyze", "the units that init writes", "systemd"),
)

# what makes a release and tests it, and the Debian package that has it
RELEASING = {
    "git": "git",
    "dpkg-buildpackage": "dpkg-dev",
    "dh": "debhelper",
    "lintian": "lintian",
    "mmdebstrap": "mmdebstrap",
    "buildah": "buildah",
    "podman": "podman",
    "podman-compose": "podman-compose",
    "ip": "iproute2",
    "gnome-keyring-daemon": "gnome-keyring",
    "dbus-run-session": "dbus-daemon",
}


def findings(machine: Machine) -> Iterator[Finding]:
    """Return a finding for every requirement, met or not."""
    version = ".".join(map(str, machine.version))
    if machine.version < (3, 11):
        yield Finding(f"Python {version}", "3.11 is the oldest that works", "make PYTHON=python3.x")
    else:
        yield Finding(f"Python {version}")
    for what, program, use, package in PROGRAMS:
        if machine.find(program):
            yield Finding(what)
        else:
            ours = program in tools.INSTALLED and not tools.SYSTEM
            cure = INSTALLED if ours else f"apt-get install {package}"
            yield Finding(what, f"the tests of {use} are skipped", cure)
    yield from _networks(machine)
    if not machine.binds("127.0.0.99"):
        cure = "use Linux, or give lo the addresses of 127.0.0.0/8"
        yield Finding("the addresses 127.0.0.2 and on", "attacks from strangers fail", cure)
    if machine.files() < FILES:
        fault = f"{machine.files()} of {FILES} are allowed"
        yield Finding("open files", fault, f"ulimit -n {FILES} (or raise its hard limit)")
    if machine.free(tempfile.gettempdir()) < ROOM:
        cure = "make room, or set TMPDIR elsewhere"
        yield Finding(f"room in {tempfile.gettempdir()}", "less than 2 GB are free", cure)
    if machine.memory() < MEMORY:
        cure = "end something, or make test SIDE_BY_SIDE="
        yield Finding("memory", "less than 2 GB are free", cure)
    yield from _releasing(machine)


def _networks(machine: Machine) -> Iterator[Finding]:
    if not machine.find("unshare"):
        fault = "attacks from many addresses and the real firewall are skipped"
        yield Finding("unshare", fault, "apt-get install util-linux")
    elif not machine.run(NETWORK):
        cure = "run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)"
        yield Finding("a network of one's own", "attacks from many addresses are skipped", cure)


def _releasing(machine: Machine) -> Iterator[Finding]:
    absent = [package for program, package in RELEASING.items() if not machine.find(program)]
    if absent:
        cure = f"apt-get install {' '.join(absent)}"
        fault = "make release and make test-packages cannot be run"
        yield Finding("what makes packages", fault, cure, tests=False)
    else:
        yield Finding("what makes packages")
    suite = machine.suite()
    if suite != SUITE:
        fault = f"make release and make image need {SUITE}, and this is {suite or 'no Debian'}"
        cure = f"run them there, or in a container of debian:{SUITE}"
        yield Finding("Debian 12", fault, cure, tests=False)
    else:
        yield Finding("Debian 12")


def _works(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0
    except OSError:
        return False


def _binds(address: str) -> bool:
    with socket.socket() as entry:
        try:
            entry.bind((address, 0))
        except OSError:
            return False
        return True


def codename() -> str:
    """Return the code name of the Debian release."""
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:  # no Linux, or a very small one
        return ""


def _available() -> int:
    reply = Path("/proc/meminfo").read_text()
    return int(reply.partition("MemAvailable:")[2].split()[0]) << 10


def _files() -> int:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return sys.maxsize if most == resource.RLIM_INFINITY else most


THIS = Machine(
    find=tools.find,
    run=_works,
    free=lambda folder: shutil.disk_usage(folder).free,
    memory=_available,
    files=_files,
    binds=_binds,
    suite=codename,
)


def main() -> int:
    """Print the findings; return 1 if a requirement is not met."""
    result = list(findings(THIS))
    for item in result:
        print(item)
    faults = sum(bool(finding.fault) and finding.tests for finding in result)
    print("all that the tests use is here" if not faults else f"{faults} missing")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
