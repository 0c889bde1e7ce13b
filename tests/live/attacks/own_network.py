"""An attack in a network of its own, where this machine has every address of 2001:db8::/32.

    def fills_it(folder: Path) -> None: ...

    def test_it(tmp_path: Path) -> None:
        in_own_network(fills_it, tmp_path)

The kernel gives a process a network with its own loopback interface; nothing leaves it, and
the machine's own is not touched.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.live.edge_host import DEADLINE_S, ROOT
from tests.support.requirements import skip

ALL_OURS = "ip link set lo up && ip -6 route add local 2001:db8::/32 dev lo"
ENTER = ["unshare", "--map-root-user", "--net", "sh", "-c", f'{ALL_OURS} && exec "$@"', "sh"]
RUN = "import sys, pathlib, {module} as m; m.{name}(pathlib.Path(sys.argv[1]))"
LONGEST_S = 120
FREEBIND = 78  # IPV6_FREEBIND, which the socket module does not name: no interface has the address


def in_own_network(
    attack: Callable[[Path], None], folder: Path, longest_s: float = LONGEST_S
) -> None:
    """Run it there, in a process of its own; what it says of a failure is the failure here."""
    if shutil.which("unshare") is None or shutil.which("ip", path="/usr/sbin:/sbin") is None:
        raise skip("netns", "unshare (util-linux) and ip (iproute2) are needed")
    probe = subprocess.run([*ENTER, "true"], capture_output=True, timeout=DEADLINE_S, check=False)
    if probe.returncode != 0:
        raise skip("netns", f"this machine gives no network of its own: {probe.stderr[-200:]!r}")
    code = RUN.format(module=attack.__module__, name=attack.__name__)
    ran = subprocess.run(
        [*ENTER, sys.executable, "-c", code, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=longest_s,
        check=False,
    )
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-4000:]


def arrive(port: int, address: str) -> socket.socket:
    """A TCP connection to this network's loopback, from one of its addresses."""
    made = socket.socket(socket.AF_INET6)
    made.settimeout(DEADLINE_S)
    made.setsockopt(socket.IPPROTO_IPV6, FREEBIND, 1)
    made.bind((address, 0))
    made.connect(("::1", port))
    return made
