"""Helpers for package tests: a clean Debian system, commands in it, and hosts installed in it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support import requirements
from tests.workplace import RELEASING, SUITE, codename

ROOT = Path(__file__).parents[2]
PATIENCE_S = 900
LONGEST_BUILD_S = 3600
EARLIER = Path(__file__).parent / "data" / "svcserver-0.1.0-py3-none-any.whl"
# settings with which this machine reaches Python's archive
ARCHIVE = ("PIP_INDEX_URL", "PIP_CERT", "PIP_DEFAULT_TIMEOUT")
STACK_IS_READY = r"gateway.*\bready\b"  # the last of its components


def need_everything() -> None:
    """Skip the test unless root runs it on the required Debian with all tools for a release."""
    if codename() != SUITE:
        raise requirements.skip("packages", f"a release is made on Debian's {SUITE} alone")
    missing = [package for program, package in RELEASING.items() if shutil.which(program) is None]
    if missing:
        raise requirements.skip("packages", f"missing: apt-get install {' '.join(missing)}")
    if os.geteuid() != 0:
        raise requirements.skip("packages", "only root can make systems and networks of their own")


def run(*words: object, patience_s: float = PATIENCE_S, umask: int = 0o022, **environ: str) -> str:
    """Run a command that must succeed, and return its output."""
    command = [str(word) for word in words]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=patience_s,
        umask=umask,
        check=False,
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def build(script: str, folder: Path) -> str:
    """Run a script of packaging/ that builds something into ``folder``; return its output."""
    return run(sys.executable, ROOT / "packaging" / script, folder, patience_s=LONGEST_BUILD_S)


class System:
    """A Debian system in a folder, entered by chroot; it runs on this machine's kernel."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *words: object, user: str = "root") -> str:
        """Run a command in the system, with access to Debian's and Python's archives."""
        return run(*self.command(words, user))

    def command(self, words: Sequence[object], user: str) -> list[str]:
        """Return the command line that runs a command in the system."""
        setting = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"]
        passed = [f"{key}={value}" for key, value in os.environ.items() if "proxy" in key.lower()]
        passed += [f"{key}={os.environ[key]}" for key in ARCHIVE if key in os.environ]
        # by exec: runuser would kill a program two seconds after SIGTERM
        who = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        # /proc, in a view of the file system that ends with the command
        enter = f'mount -t proc proc "{self.root}/proc" && exec chroot "{self.root}" "$@"'
        apart = ["unshare", "--mount", "--propagation", "private", "sh", "-c", enter, "sh"]
        return [*apart, *setting, *passed, *who, *map(str, words)]

    def copy(self, path: Path) -> str:
        """Copy a file into the system's /tmp and return the path there."""
        shutil.copy(path, self.root / "tmp")
        return f"/tmp/{path.name}"

    @contextmanager
    def alone(self) -> Iterator[Alone]:
        """Create a network namespace where every port is free and all users may open port 443."""
        name = f"svc-{os.getpid()}-{self.root.name}"[-40:]
        run("ip", "netns", "add", name)
        try:
            run("ip", "-n", name, "link", "set", "lo", "up")
            low = "net.ipv4.ip_unprivileged_port_start=443"
            run("ip", "netns", "exec", name, "sysctl", "-q", "-w", low)
            yield Alone(self, name)
        finally:
            run("ip", "netns", "delete", name)


class Alone:
    """A Debian system inside its own network namespace."""

    def __init__(self, system: System, network: str) -> None:
        self.system, self.network = system, network

    def command(self, words: Sequence[object], user: str = "root") -> list[str]:
        """Return the command line that runs a command in the namespace."""
        return ["ip", "netns", "exec", self.network, *self.system.command(words, user)]

    def run(self, *words: object, user: str = "root") -> str:
        """Run a command in the namespace and return its output."""
        return run(*self.command(words, user))

    @contextmanager
    def running(self, *words: object, user: str, until: str) -> Iterator[None]:
        """Run a program until the block ends; wait first until its output matches ``until``."""
        log = self.system.root / "tmp" / "running.log"
        with log.open("wb") as out:
            process = subprocess.Popen(self.command(words, user), stdout=out, stderr=out)
        try:
            deadline = time.monotonic() + PATIENCE_S
            while re.search(until, log.read_text(errors="replace")) is None:
                assert process.poll() is None, log.read_text(errors="replace")
                assert time.monotonic() < deadline, log.read_text(errors="replace")
                time.sleep(0.2)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)


def clean_system(folder: Path, *packages: str) -> System:
    """Create a Debian system with apt and these ``packages``, using mmdebstrap."""
    run(
        "mmdebstrap",
        "--variant=apt",
        f"--include={','.join(('ca-certificates', *packages))}",
        SUITE,
        folder,
    )
    shutil.copy("/etc/resolv.conf", folder / "etc")
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    if certificates.exists():
        shutil.copy(certificates, folder / "etc/ssl/certs")
    system = System(folder)
    system.run("apt-get", "update", "-q")
    return system
