"""The metrics of real services during attacks: each kind of refusal is counted.

Real processes are needed because the metrics describe whole processes.
"""

import ssl
from contextlib import ExitStack
from pathlib import Path

import orjson
import pytest

from tests.live.attacks.support import arrive, figures, over_tls
from tests.live.edge_host import SECRET, Host, running
from tests.support.processes import eventually, free_port, metagame

pytestmark = pytest.mark.live

GUESSES, BURST, ROOM = 6, 30, 8  # account keys; requests before 429; connections in all
LIMITS = {
    "GATEWAY_RATE_GENERAL": f"{BURST},1",
    "GATEWAY_RATE_TOKEN": f"{GUESSES},1",
    "GATEWAY_MAX_CONNECTIONS": str(ROOM),
}


def ask(connection: ssl.SSLSocket, method: str, path: str, body: bytes = b"") -> int:
    """Send a request and return the status of the response."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    received = connection.recv(65_536)
    return int(received.split(b" ", 2)[1])


def attack(host: Host) -> None:
    """Guess keys, request private pages, exceed rate limits and fill the gateway."""
    with over_tls(arrive(host.gateway_port, "127.0.3.1")) as entry:
        for number in range(GUESSES):
            guess = orjson.dumps({"exchange_code": f"UUK_{number:048x}"})
            assert ask(entry, "POST", "/account/api/oauth/token", guess) == 400
        assert ask(entry, "GET", "/svc/api/InviteCodes") == 403
        replies = [ask(entry, "GET", "/accountinfo") for _ in range(3 * BURST)]
        assert replies.count(401) == BURST - 1
        assert replies.count(429) == 2 * BURST + 1
    with ExitStack() as held:
        for number in range(2 * ROOM):
            connection = held.enter_context(
                over_tls(arrive(host.gateway_port, f"127.0.4.{number + 1}"))
            )
            assert ask(connection, "GET", "/other") == 404
    with over_tls(arrive(host.gateway_port, "127.0.3.2")) as entry:
        assert (
            ask(entry, "GET", "/svc/api/ServerStatus") == 200
        )  # the log line of this request counts the omitted lines


def test_each_kind_of_attack_raises_a_separate_metric(tmp_path: Path) -> None:
    at_gateway, at_metagame = free_port(), free_port()
    with metagame(tmp_path, METRICS_PORT=str(at_metagame), GATEWAY_SECRET=SECRET) as service:
        more = LIMITS | {"METRICS_PORT": str(at_gateway)}
        url = f"http://127.0.0.1:{service.port}"
        with running(tmp_path, **more, GATEWAY_METAGAME_URL=url) as host:
            attack(host)

            def shown() -> bool:
                return bool(
                    figures(at_gateway).get(
                        'svc_gateway_dropped_log_lines_total{reason="refusals"}'
                    )
                )

            eventually(shown)
            gateway, game = figures(at_gateway), figures(at_metagame)
    assert gateway['svc_gateway_throttled_total{reason="general"}'] == 2 * BURST + 1
    assert gateway['svc_gateway_refusals_total{reason="rate_limited:general"}'] == 2 * BURST + 1
    assert sum(n for name, n in gateway.items() if "_refusals_total{" in name) > 2 * BURST + 1
    evicted = [n for name, n in gateway.items() if "_evicted_connections_total{" in name]
    assert sum(evicted) >= ROOM
    assert game['svc_metagame_failed_logins_total{reason="account_key"}'] == GUESSES
    assert game['svc_metagame_refusals_total{reason="401"}'] == BURST - 1
