"""Attacks with texts whose redaction could be slow: they cost little CPU and few log lines.

Real processes are needed because the CPU of the service is measured.
"""

import threading
from functools import partial
from pathlib import Path

import orjson
import pytest

from tests.live.attacks.support import arrive, figures, median_s, newcomer_s, over_tls, until_over
from tests.live.edge_host import Host, running
from tests.support.processes import free_port

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
]  # measures how long a newcomer waits, compared with the idle host

CONNECTIONS, MOST = 12, 5_000  # MOST is the number of requests on one connection
TARGET = b"/" + b"eyJ" * 530  # a token could begin at every third character
ASK = b"HEAD %b HTTP/1.1\r\nHost: localhost\r\nUser-Agent: %b\r\n\r\n" % (TARGET, TARGET)
TIMES_IDLE, FLOOR_S = 15, 0.25  # limits of a wait: times the idle wait, or seconds


def attack(host: Host, ready: threading.Barrier, request: list[int], over: threading.Event) -> None:
    """Send requests on one connection without a pause; all but the first are rejected."""
    with over_tls(arrive(host.gateway_port)) as connection:
        ready.wait(30)
        sent = 0
        while sent < MOST and not over.is_set():
            connection.sendall(ASK)
            assert connection.recv(65_536)
            sent += 1
        request.append(sent)


def test_targets_full_of_token_prefixes_delay_no_newcomer(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, GATEWAY_RATE_GENERAL="20,60", METRICS_PORT=str(port)) as host:
        idle = median_s(lambda: newcomer_s(host))
        ready, request = threading.Barrier(CONNECTIONS + 1), list[int]()
        with until_over(*[partial(attack, host, ready, request)] * CONNECTIONS):
            ready.wait(30)
            waited = median_s(lambda: newcomer_s(host))
        shown = figures(port)
        newcomer_s(host)  # the log line of this request counts the omitted lines
        assert waited < max(TIMES_IDLE * idle, FLOOR_S), (idle, waited)
    written = host.logs[0].read_text().splitlines()
    lines = [orjson.loads(line) for line in written if "message" in line]
    refused = [line for line in lines if line.get("status") == 429]
    assert 0 < len(refused) < 150
    omitted = sum(line.get("omitted", 0) for line in lines)
    throttled = shown['svc_gateway_throttled_total{reason="general"}']
    assert len(request) == CONNECTIONS and max(request) < MOST, (
        request
    )  # no client has given up, and none has sent all its requests
    assert throttled > sum(request) / 2
    assert shown['svc_gateway_dropped_log_lines_total{reason="refusals"}'] == omitted
    attackers = [line for line in lines if line.get("ip") == "127.0.0.1"]
    assert len(attackers) + omitted == sum(request)
