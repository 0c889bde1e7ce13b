"""Attacks in a separate network namespace, in which every address of 2001:db8::/32 is local.

    def fills_it(folder: Path) -> None: ...

    def test_it(tmp_path: Path, network: OwnNetwork) -> None:
        network.run(fills_it, tmp_path)

One process inside the namespace runs the attacks of a test file one after another. It imports
everything first, and forks the services that the attacks need (``tests/support/shared.py``). The
namespace has its own loopback interface: no packet leaves it, and the machine's own network does
not change.
"""

import fcntl
import json
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import IO
from unittest import SkipTest

import pytest
from attrs import define

from tests.live.edge_host import DEADLINE_S, ROOT
from tests.support.requirements import skip

LONGEST_S = 120
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
FREEBIND = 78  # IPV6_FREEBIND, which the socket module does not name: no interface has the address


@define
class OwnNetwork:
    """A process in the private network that waits for attacks to run."""

    _process: subprocess.Popen[str]
    _output: IO[str]  # the output of the process and its children

    def run(
        self, attack: Callable[[Path], None], folder: Path, longest_s: float = LONGEST_S
    ) -> None:
        """Run an attack in the private network; if the attack fails, fail here with its error."""
        request, output = self._process.stdin, self._process.stdout
        assert request is not None and output is not None
        request.write(json.dumps([attack.__module__, attack.__name__, str(folder)]) + "\n")
        request.flush()
        in_time = select.select([output], [], [], longest_s)[0]
        line = output.readline() if in_time else ""
        if line != "null\n":
            self._output.seek(0)
            why = json.loads(line) if line else f"no answer within {longest_s} s, or dead"
            if isinstance(why, dict):
                raise SkipTest(why["skipped"])
            raise AssertionError(f"{self._output.read()[-4000:]}\n{why}")


@lru_cache(maxsize=1)
def unshared() -> list[str]:
    """Return the command prefix that runs a command in a new network namespace.

    Skip the test if this machine does not allow one.
    """
    for enter in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        with suppress(FileNotFoundError):
            done = subprocess.run([*enter, "true"], capture_output=True, check=False)
            if done.returncode == 0:
                return enter
    raise skip("netns", "unshare --map-root-user --net fails; `make doctor` names the cure")


def use_every_address() -> None:
    """Bring up this network's loopback interface and route 2001:db8::/32 to it."""
    name = b"lo"
    with socket.socket() as control:
        flags = struct.unpack(
            "16xh", fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack("16sh", name, 0))
        )
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh", name, flags[0] | IFF_UP))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as kernel:
        # rtmsg: family, length of the prefix, table, protocol, scope and type of the route
        route = struct.pack("BBBBBBBBI", socket.AF_INET6, 32, 0, 0, 255, 4, 254, 2, 0)
        route += struct.pack("HH16s", 20, 1, socket.inet_pton(socket.AF_INET6, "2001:db8::"))
        route += struct.pack("HHI", 8, 4, socket.if_nametoindex("lo"))
        kernel.send(struct.pack("IHHII", 16 + len(route), 24, 0x605, 1, 0) + route)
        error = struct.unpack_from("i", kernel.recv(4096), 16)[0]
        if error:
            raise OSError(-error, os.strerror(-error))


@contextmanager
def own_network() -> Iterator[OwnNetwork]:
    """Create a private network; skip the test if this machine does not allow one."""
    enter = unshared()
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile("w+") as deliveries,
        subprocess.Popen(
            [*enter, sys.executable, "-m", __name__],
            cwd=ROOT,
            stdin=pipe,
            stdout=pipe,
            stderr=deliveries,
            text=True,
        ) as process,
    ):
        try:
            yield OwnNetwork(process, deliveries)
        finally:
            assert process.stdin is not None
            process.stdin.close()  # the process ends its shared resources, then exits
            try:
                process.wait(DEADLINE_S)
            finally:
                process.kill()


@pytest.fixture(scope="module")
def network() -> Iterator[OwnNetwork]:
    """Yield the private network that the attacks of one file share."""
    with own_network() as made:
        yield made


def in_own_network(
    attack: Callable[[Path], None], folder: Path, longest_s: float = LONGEST_S
) -> None:
    """Create a private network and run one attack in it."""
    with own_network() as made:
        made.run(attack, folder, longest_s)


def main() -> None:
    """Run the attacks that the standard input names, one per line.

    After each attack, print its error, or null if it succeeded.
    """
    use_every_address()
    request, reply = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    # processes that attacks start must not use these pipes
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    for line in request:
        module, name, folder = json.loads(line)
        why: str | dict[str, str] | None = None
        try:
            getattr(import_module(module), name)(Path(folder))
        except (SkipTest, pytest.skip.Exception) as skipped:
            why = {"skipped": str(skipped)}
        except BaseException:
            why = traceback.format_exc()[-4000:]
        print(json.dumps(why), file=reply, flush=True)


def arrive(port: int, address: str) -> socket.socket:
    """Open a TCP connection to loopback from one of the private network's addresses."""
    made = socket.socket(socket.AF_INET6)
    made.settimeout(DEADLINE_S)
    made.setsockopt(socket.IPPROTO_IPV6, FREEBIND, 1)
    made.bind((address, 0))
    made.connect(("::1", port))
    return made


if __name__ == "__main__":
    main()
