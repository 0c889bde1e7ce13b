"""The highest number of idle connections that a gateway allows, from sixteen addresses.

Real processes are needed because the tests count the gateway's descriptors and measure how long a
new player waits.
"""

import ssl
import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import orjson
import pytest

from tests.live.attacks.support import arrive, figures, median_s, newcomer_s, over_tls
from tests.live.edge_host import Host, running
from tests.live.test_gateway_abuse import all_gone, many_files
from tests.support.processes import free_port

pytestmark = [pytest.mark.live, pytest.mark.alone]  # measures how long newcomers wait

ADDRESSES, EACH = 16, 128  # the default limits: ADDRESSES * EACH, and EACH per address
ASK = b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n"
AT_MOST_S = 1.0
TIMES_IDLE, FLOOR_S = 15, 0.25  # limits of most waits: times the idle wait, or seconds
EVICTED = "svc_gateway_evicted_connections_total{"


def crowd(host: Host, held: ExitStack) -> Iterator[ssl.SSLSocket]:
    """Open the gateway's maximum number of connections; yield each after its only request."""
    for number in range(ADDRESSES * EACH):
        raw = arrive(host.gateway_port, f"127.0.1.{number % ADDRESSES + 1}")
        connection = held.enter_context(over_tls(raw))
        connection.sendall(ASK)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        yield connection


# slow: as many TLS connections as an owner's gateway takes
def test_a_newcomer_is_served_while_idle_connections_fill_the_gateway(tmp_path: Path) -> None:
    port = free_port()
    with many_files(), running(tmp_path, METRICS_PORT=str(port)) as host, ExitStack() as held:
        idle = median_s(lambda: newcomer_s(host))
        first, *_, last = crowd(host, held)
        waits = [newcomer_s(host, f"127.0.2.{number}") for number in range(1, 21)]
        assert max(waits) < AT_MOST_S
        assert statistics.median(waits) < max(TIMES_IDLE * idle, FLOOR_S), (idle, waits)
        last.sendall(ASK)
        assert last.recv(4096).startswith(b"HTTP/1.1 200 ")  # the other connections are still open
        assert all_gone([first])  # the connection that had been idle longest
        evicted = [n for name, n in figures(port).items() if name.startswith(EVICTED)]
        assert sum(evicted) >= 1
    written = host.logs[0].read_text().splitlines()
    lines = [orjson.loads(line) for line in written if "message" in line]
    assert [line["connections"] for line in lines if "gateway is full" in line["message"]] == [
        2_048
    ]
