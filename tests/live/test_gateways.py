"""Two gateways that share an engine: a client who exceeds a rate limit is rejected by both.

Real processes are needed because limits are shared between processes.
"""

import ssl
from contextlib import ExitStack, closing
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from attrs import frozen

from tests.live.attacks.support import figures
from tests.live.test_restart import gateway
from tests.support.processes import eventually, free_port, metagame
from tests.support.valkey import Instance

pytestmark = pytest.mark.live
BURST = 3
RATES = {"GATEWAY_RATE_REGISTER": f"{BURST},0.2"}

SENT_TOKENS, RECEIVED_TOKENS = "svc_gateway_tokens_given_total", "svc_gateway_tokens_heard_total"


@frozen
class Gateway:
    """The ports of a gateway: one port for players and one port for metrics."""

    port: int
    metrics: int


def registered(port: int) -> int:
    """Register through a gateway and return the status."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    line = HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
    with closing(line):
        line.request("POST", "/svc/api/Register", "{", {"Content-Type": "application/json"})
        return line.getresponse().status


def passed(gateways: list[Gateway], *, shared: bool = False) -> int:
    """Register eight times, at each gateway in turn; return how many registrations pass.

    If ``shared`` is true, wait after each registration until both gateways know all rate-limit
    tokens that either gateway has spent.
    """
    result = 0
    for number in range(8):
        result += registered(gateways[number % len(gateways)].port) != 429
        if shared:
            eventually(lambda: know_of_each_other(gateways))
    return result


def know_of_each_other(gateways: list[Gateway]) -> bool:
    """Return whether each gateway knows every rate-limit token that the other gateway has spent."""
    first, second = (figures(each.metrics) for each in gateways)
    return (
        first[SENT_TOKENS] == second[RECEIVED_TOKENS]
        and second[SENT_TOKENS] == first[RECEIVED_TOKENS]
    )


def two(stack: ExitStack, folder: Path, **more: str) -> list[Gateway]:
    """Run two gateways in front of one metagame."""
    game = stack.enter_context(metagame(folder, GATEWAY_SECRET="live-secret-" * 3))
    made = []
    for name in ("one", "other"):
        (folder / name).mkdir()
        metrics = free_port()
        settings = {**RATES, **more, "METRICS_PORT": str(metrics)}
        port = stack.enter_context(gateway(folder / name, [game.port], **settings))
        made.append(Gateway(port, metrics))
    return made


def test_two_gateways_share_a_rate_limit_and_keep_it_if_engine_dies(tmp_path: Path) -> None:
    engine = Instance.make()
    engine.start()
    with ExitStack() as stack:
        stack.callback(engine.end)
        gateways = two(stack, tmp_path, LIVE_URL=engine.url)
        assert passed(gateways, shared=True) == BURST
        engine.kill()
        # each gateway keeps the limits that it knew, and both still answer
        assert passed(gateways) == 0


def test_without_the_engine_each_gateway_counts_by_itself(tmp_path: Path) -> None:
    """Check that the test above fails without the engine."""
    with ExitStack() as stack:
        assert passed(two(stack, tmp_path)) == 2 * BURST
