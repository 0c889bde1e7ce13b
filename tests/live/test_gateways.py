"""Two gateways on one engine: a stranger who is over the rate at one is over it at both.

Why processes: limits are shared between processes.
"""

from __future__ import annotations

import ssl
import time
from contextlib import ExitStack, closing
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from tests.live.test_restart import gateway
from tests.support.processes import metagame
from tests.support.valkey import Instance

pytestmark = pytest.mark.live
BURST = 3
RATES = {"GATEWAY_RATE_REGISTER": f"{BURST},0.2"}


def registered(port: int) -> int:
    """The status of a registration through a gateway."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    line = HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
    with closing(line):
        line.request("POST", "/svc/api/Register", "{", {"Content-Type": "application/json"})
        return line.getresponse().status


def passed(ports: list[int]) -> int:
    """How many of eight registrations pass, at each gateway in turn."""
    found = 0
    for number in range(8):
        found += registered(ports[number % len(ports)]) != 429
        time.sleep(0.1)  # a person at a keyboard; what was told is heard by then
    return found


def two(stack: ExitStack, folder: Path, **more: str) -> list[int]:
    """The ports of two gateways before one metagame."""
    game = stack.enter_context(metagame(folder, GATEWAY_SECRET="live-secret-" * 3))
    ports = []
    for name in ("one", "other"):
        (folder / name).mkdir()
        ports.append(stack.enter_context(gateway(folder / name, [game.port], **RATES, **more)))
    return ports


def test_what_one_gave_the_other_does_not_give_again(tmp_path: Path) -> None:
    engine = Instance.make()
    engine.start()
    with ExitStack() as stack:
        stack.callback(engine.end)
        ports = two(stack, tmp_path, LIVE_URL=engine.url)
        assert passed(ports) == BURST
        engine.kill()
        assert passed(ports) == 0  # each knows what it knew; and both still answer


def test_without_the_engine_each_counts_by_itself(tmp_path: Path) -> None:
    """The sabotage: what the test above rests on."""
    with ExitStack() as stack:
        assert passed(two(stack, tmp_path)) == 2 * BURST
