"""A flood of requests at the gateway; the webhook reports the start and the end of the flood.

Real processes are needed because one process counts the gateway's refusals, another reads
METRICS_PORT, and a third sends the alert.
"""

import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.ctl.hosts import change, demo_host, read_output, run, stack, value
from tests.live.test_alerts import add, receiver
from tests.support.processes import SELDOM_S, Service, eventually
from tests.support.proves import proves

pytestmark = pytest.mark.live

EVERY_S = 5  # the shortest that ALERTS_EVERY_SECONDS allows: 50 refusals within it are a flood
FLOOD = 120


def refused(port: int) -> None:
    """Send many requests for a page that the gateway never serves."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    line = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
    # a connection that is cut off was refused as well
    with suppress(OSError, http.client.HTTPException):
        for _ in range(FLOOD):
            line.request("GET", "/svc/dashboard")
            assert line.getresponse().read() is not None
    line.close()


@contextmanager
def under_stack(folder: Path) -> Iterator[None]:
    with stack(folder):
        eventually(lambda: "stack ready: " in read_output(folder))
        yield


@contextmanager
def under_units(folder: Path) -> Iterator[None]:
    """Run a gateway and its monitor separately, as under systemd."""
    for name in ("deploy", "content", "allowlist"):
        (folder / f"{name}.env").unlink()
    port = int(value(folder, "gateway", "GATEWAY_PORT"))
    env_file = ["--env-file", str(folder / "gateway.env")]
    running = [
        Service("svc-gateway", folder, {}, port, env_file),
        Service("svc-watch", folder, {}, port, ["--config", str(folder)]),
    ]
    try:
        for server in running:
            server.start()
        yield
    finally:
        for server in running:
            if server.process is not None:
                server.stop()


# slow: 60 s: figures are asked for every five seconds, before the flood, during it and after
@pytest.mark.parametrize("running", [under_stack, under_units])
@proves(
    "alerts: errors rising, under attack", "svc-watch: alerts of services that no svc-stack runs"
)
def test_the_start_and_end_of_a_flood_reach_the_webhook(
    tmp_path: Path, running: Callable[[Path], Iterator[None]]
) -> None:
    folder = demo_host(tmp_path / "host")
    port = int(value(folder, "gateway", "GATEWAY_PORT"))
    change(folder, "stack", "ALERTS_EVERY_SECONDS", str(EVERY_S))
    with receiver() as (url, stored):
        add(folder, "hook", url, "ABOUT=attack")

        def was_delivered(*, over: bool) -> bool:
            messages = [json.loads(body) for _, body in stored]
            return any(
                entry["subject"] == "gateway" and entry["over"] is over for entry in messages
            )

        def flooded() -> bool:
            refused(port)
            return was_delivered(over=False)

        with running(folder):
            eventually(flooded, pause_s=SELDOM_S)
            eventually(lambda: was_delivered(over=True))
            alert = json.loads(stored[0][1])
            assert alert["what"] == "attack" and "refused" in alert["text"], alert
            assert alert["title"] == "gateway is under attack"
            ran = run("alerts", "test", "hook", "--config", folder, "--json")
            assert ran.returncode == 0 and json.loads(ran.stdout)["delivered"], ran.stderr
