"""An attacker who owns one IPv6 network: gateway connections, and reports to the allowlist.

Real processes are needed because the attackers run in a network namespace.
"""

from __future__ import annotations

import select
import socket
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import orjson
import pytest

from svcserver.gateway.feed import NETWORK_WANTED
from tests.live.attacks.own_network import OwnNetwork, arrive, network
from tests.live.attacks.support import over_tls
from tests.live.attacks.test_web_pages import SECRET, helper
from tests.live.edge_host import Host, running
from tests.live.test_gateway_abuse import many_files
from tests.support.processes import eventually
from tests.support.watch import Watch

__all__ = ["network"]  # a fixture

pytestmark = [pytest.mark.live, pytest.mark.alone]  # measures how long others wait

OPEN = {"GATEWAY_BIND": "::", "GATEWAY_RATE_CONNECT": "100000,100000"}
EACH = 32  # GATEWAY_MAX_CONNECTIONS_PER_IP
TRIES = 6 * EACH
AT_MOST_S = 1.0
REPORTED = 40  # addresses of one network that a player's token is used from
HEARTBEAT = (
    b"POST /heartbeat HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n"
    b"Content-Length: 2\r\nConnection: close\r\n\r\n{}"
)


# slow: the first test of this file waits until the namespace's process has imported everything
def test_a_wide_network_gets_the_connections_of_a_few_addresses(
    tmp_path: Path, network: OwnNetwork
) -> None:
    network.run(opens_connections, tmp_path)


def opens_connections(folder: Path) -> None:
    """Open connections from one address, then from a whole /64, /56 and /48."""
    most = {"GATEWAY_MAX_CONNECTIONS_PER_IP": str(EACH), "GATEWAY_HANDSHAKE_TIMEOUT_MS": "120000"}
    with many_files(), running(folder, **OPEN, **most) as host, ExitStack() as held:
        tried: list[socket.socket] = []
        for networks, shares in (
            (["2001:db8:7:1"], 1),
            ([f"2001:db8:7:{n:x}" for n in range(2, 7)], 2),
            ([f"2001:db8:7:{n:x}00" for n in range(1, 9)], 4),
        ):
            for number in range(TRIES):
                address = f"{networks[number % len(networks)]}::{number + 1:x}"
                tried.append(held.enter_context(arrive(host.gateway_port, address)))
            eventually(lambda most=EACH * shares: sum(map(is_open, tried)) <= most)
            assert sum(map(is_open, tried)) == EACH * shares
            with Watch() as watch:
                assert heartbeat(host, "2001:db8:8::1").startswith(b"HTTP/1.1 200 ")
            assert watch.seconds < AT_MOST_S


def is_open(entry: socket.socket) -> bool:
    """Return whether the gateway has kept the connection open."""
    readable = select.select([entry], [], [], 0)[0]
    with suppress(OSError):
        return not readable or bool(entry.recv(1, socket.MSG_PEEK))
    return False


def heartbeat(host: Host, address: str) -> bytes:
    """Send a heartbeat from an address and return the status."""
    with arrive(host.gateway_port, address) as raw, over_tls(raw) as player:
        player.sendall(HEARTBEAT)
        return player.recv(4096)


def test_many_reports_of_one_network_delay_no_other_player(
    tmp_path: Path, network: OwnNetwork
) -> None:
    network.run(floods_a_silent_helper, tmp_path)


class Silent:
    """An allowlist helper that accepts reports and never answers."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listening.getsockname()[1]
        self.reports: list[str] = []
        self.open: list[socket.socket] = []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        while True:
            first, _ = self.listening.accept()
            self.open.append(first)
            received = b""
            while not received.endswith(b"}"):
                received += first.recv(4096)
            self.reports.append(orjson.loads(received.rpartition(b"\r\n")[2])["ip"])


def floods_a_silent_helper(folder: Path) -> None:
    """Leave all reports about one network unanswered; a report about another must still be sent."""
    silent = Silent()
    url = f"http://127.0.0.1:{silent.port}"
    with running(folder, **OPEN, ALLOWLIST_URL=url) as host, ExitStack() as held:
        players = [
            held.enter_context(over_tls(arrive(host.gateway_port, f"2001:db8:7:1::{number + 1:x}")))
            for number in range(REPORTED)
        ]
        for player in players:
            player.sendall(HEARTBEAT)
        for player in players:
            assert player.recv(4096).startswith(b"HTTP/1.1 200 ")
        heartbeat(host, "2001:db8:8::1")
        eventually(lambda: "2001:db8:8::1" in silent.reports, AT_MOST_S)
        near = {address for address in silent.reports if address.startswith("2001:db8:7:")}
        assert 0 < len(near) <= NETWORK_WANTED, near


def test_a_network_that_reports_many_addresses_leaves_room_for_others(
    tmp_path: Path, network: OwnNetwork
) -> None:
    network.run(floods_the_helper, tmp_path)


def floods_the_helper(folder: Path) -> None:
    """Send heartbeats with one token from many addresses of a network.

    A modified client could do the same.
    """
    key = {"X-Allowlist-Secret": SECRET}
    with helper(folder) as service:
        url = f"http://127.0.0.1:{service.port}"
        with running(folder, **OPEN, ALLOWLIST_URL=url, ALLOWLIST_SECRET=SECRET) as host:
            heartbeat(host, "2001:db8:8::1")
            for number in range(REPORTED):
                heartbeat(host, f"2001:db8:7:1::{number + 1:x}")
            heartbeat(host, "2001:db8:9::1")

            def entries() -> set[str]:
                replies = service.ask("GET", "/status", None, key)[1]
                return {entry["ip"] for entry in orjson.loads(replies)["entries"]}

            others = {"2001:db8:8::1", "2001:db8:9::1"}
            eventually(lambda: others <= entries(), 5.0)
            eventually(
                lambda: len(entries() - others) >= 16, 5.0
            )  # reports are sent a few at a time
            assert len(entries() - others) == 16
