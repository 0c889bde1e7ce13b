"""A port below 1024 for a gateway that never runs as root: by capability or by inherited socket.

Real processes are needed because a process receives capabilities and an inherited socket when it
starts.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import orjson
import pytest

from svcserver.edge.certificate import make_pair, write_pair
from tests.live.edge_host import DEADLINE_S, ROOT, SECRET, Host, running, start
from tests.support.nobody import NOBODY, as_nobody
from tests.support.proves import proves
from tests.support.requirements import skip

pytestmark = pytest.mark.live
TWISTD = str(Path(sys.executable).with_name("twistd"))
LOWEST_FREE = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
BIND = "net_bind_service"
CAPABILITY = "0000000000000400"  # CAP_NET_BIND_SERVICE and nothing else


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    """Skip the tests if the user ``nobody`` may open low ports or cannot run twistd.

    The user cannot run twistd if, for example, the Python interpreter is in another user's home.
    """
    if shutil.which("setpriv") is None:
        raise skip("capability", "setpriv (util-linux) is not installed")
    if not LOWEST_FREE.exists() or int(LOWEST_FREE.read_text()) < 1024:
        raise skip("capability", f"{LOWEST_FREE} lets everybody open low ports")
    tried = subprocess.run(
        [*as_nobody(BIND), TWISTD, "svc-gateway", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if tried.returncode != 0:
        raise skip("capability", f"nobody cannot run this checkout: {tried.stderr[-200:]}")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder that the user ``nobody`` may enter and read, unlike pytest's own folders."""
    before = os.umask(0o022)
    try:
        with tempfile.TemporaryDirectory() as made:
            Path(made).chmod(0o755)
            yield Path(made)
    finally:
        os.umask(before)


def low_port() -> int:
    """Return a free port below 1024; the function works only as root."""
    first = 700 + os.getpid() % 200
    for port in (*range(first, 1024), *range(600, first)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no low port is free")


def rights_of(host: Host) -> tuple[str, str]:
    """Return the user id and the effective capabilities of the gateway."""
    lines = Path(f"/proc/{host.gateway.pid}/status").read_text().splitlines()
    reply = dict(line.split(":", 1) for line in lines)
    return reply["Uid"].split()[0], reply["CapEff"].strip()


def serves(host: Host) -> bool:
    """Return whether a request gets through and the upstream sees the client's address."""
    status, _, body = host.ask("GET", "/low")
    messages = dict(orjson.loads(body)["headers"])
    return (status, messages["X-Forwarded-For"]) == (200, "127.0.0.1")


@proves("gateway: TLS 1.2 or newer, self-signed, GATEWAY_BIND and GATEWAY_PORT")
def test_the_capability_alone_opens_the_port(folder: Path) -> None:
    with running(folder, before=as_nobody(BIND), port=low_port()) as host:
        assert host.gateway_port < 1024
        assert rights_of(host) == (str(NOBODY), CAPABILITY)
        assert serves(host)


@proves("gateway: TLS 1.2 or newer, self-signed, GATEWAY_BIND and GATEWAY_PORT")
def test_a_low_port_without_the_capability_fails_with_one_line(folder: Path) -> None:
    certificate, key = write_pair(make_pair(["127.0.0.1"]), folder)
    key.chmod(0o644)
    port, log = low_port(), folder / "refused.log"
    environ = {
        "GATEWAY_BIND": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "GATEWAY_CERT": str(certificate),
        "GATEWAY_KEY": str(key),
        "GATEWAY_SECRET": SECRET,
        "GATEWAY_ALLOWLIST": "0",
    }
    refused = start("svc-gateway", environ, log, before=as_nobody())
    assert refused.wait(DEADLINE_S) != 0
    line = log.read_text().strip().splitlines()[-1]
    assert f"svc-gateway: GATEWAY_PORT: cannot listen on 127.0.0.1:{port}:" in line
    assert "CAP_NET_BIND_SERVICE" in line


@proves("gateway: TLS 1.2 or newer, self-signed, GATEWAY_BIND and GATEWAY_PORT")
def test_a_socket_handed_over_needs_no_right_at_all(folder: Path) -> None:
    port = low_port()
    if socket.has_dualstack_ipv6():  # what systemd opens for ListenStream=443
        listener = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        listener = socket.create_server(("", port))
    with (
        listener,
        running(folder, listener=str(listener.fileno()), before=as_nobody(), port=port) as host,
    ):
        assert rights_of(host) == (str(NOBODY), "0" * 16)
        assert serves(host)
        assert f":{port}" in host.logs[0].read_text()
