"""A whole host as a monitoring system sees it: metrics, logs, doctor and watch. Spec: 2 §8.

Real processes are needed because the tests check what an owner sees of a process tree.
"""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.ctl.hosts import SVCCTL, change, demo_host, read_output, row_of, run, stack, value
from tests.support.processes import ask, eventually
from tests.support.proves import proves

pytestmark = pytest.mark.live

BOARD = Path(__file__).parents[2] / "docs" / "host" / "grafana.json"
OWN = {
    "metagame": "svc_metagame_players_online",
    "deploy": "svc_deploy_game_servers_running",
    "content": "svc_content_downloads_running",
    "allowlist": "svc_allowlist_open_addresses",
    "gateway": "svc_gateway_",
    "stack": "svc_stack_components_ready 5.0",
}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, int]]]:
    """Run a host with metrics enabled; yield it with each component's metrics port."""
    folder = demo_host(tmp_path_factory.mktemp("observed") / "host")
    first = row_of(40, socket.SOCK_STREAM)
    ports = {name: first + 30 + at for at, name in enumerate(OWN)}
    for name, port in ports.items():
        if name != "stack":
            change(folder, name, "METRICS_PORT", str(port))
    with ExitStack() as running:
        # the stack's own environment; a child process sees only its env file
        with pytest.MonkeyPatch.context() as environ:
            environ.setenv("METRICS_PORT", str(ports["stack"]))
            running.enter_context(stack(folder, "--json"))
        eventually(lambda: "stack ready: " in read_output(folder), 90)
        yield folder, ports


def scrape(port: int) -> str:
    """Return the metrics that a service shows at this port."""
    return ask(port, "GET", "/metrics")[1].decode()


def answers(port: int) -> bool:
    """Return whether the service answers on its metrics port.

    If it does, its reactor runs, so that it handles signals.
    """
    try:
        return bool(scrape(port))
    except OSError:
        return False


@proves("METRICS_PORT of every service, on loopback only")
def test_every_service_shows_its_figures(host: tuple[Path, dict[str, int]]) -> None:
    _, ports = host
    for name, own in OWN.items():
        eventually(lambda name=name: answers(ports[name]))
        page = scrape(ports[name])
        assert own in page, name
        assert "process_resident_memory_bytes" in page, name
        assert "process_open_fds" in page, name


@proves("docs/host/grafana.json asks for figures that are there")
def test_every_figure_and_label_of_the_board_is_on_a_page(
    host: tuple[Path, dict[str, int]],
) -> None:
    folder, ports = host
    statuses = wrong_log_ins(int(value(folder, "gateway", "GATEWAY_PORT")))
    assert {400, 429} <= set(statuses)  # so that one label of each kind has a count
    shown: dict[str, set[str]] = {}
    for port in ports.values():
        for name, labels in on_page(scrape(port)):
            shown.setdefault(name, set()).update(labels)
    request = list(asked_for(json.loads(BOARD.read_text("utf-8"))))
    assert len(request) > 12
    for name, labels in request:
        assert name in shown, f"no service shows {name}"
        assert labels <= shown[name], f"{name} has {shown[name]}, not {labels}"


def wrong_log_ins(port: int) -> list[int]:
    """Log in with a wrong key more often than the gateway allows, and return the statuses."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    line = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
    results = []
    with closing(line):
        for _ in range(15):
            form = "grant_type=exchange_code&exchange_code=wrong&token_type=eg1"
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            line.request("POST", "/account/api/oauth/token", form, kind)
            messages = line.getresponse()
            messages.read()
            results.append(messages.status)
    return results


def on_page(page: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the name and labels of every series on a metrics page.

    A labelled counter that is still zero has no series, but its name is on the page.
    """
    for family in text_string_to_metric_families(page):
        if family.type == "counter":
            yield f"{family.name}_total", set()
        for sample in family.samples:
            yield sample.name, set(sample.labels)


def asked_for(board: Any) -> Iterator[tuple[str, set[str]]]:
    """Yield each series that a Grafana dashboard queries, with the labels of the query's groups."""
    for panel in board["panels"]:
        for target in panel["targets"]:
            by = re.findall(r"\bby \(([^)]*)\)", target["expr"])
            labels = {entry.strip() for group in by for entry in group.split(",")}
            yield from ((name, labels) for name in re.findall(r"svc_\w+", target["expr"]))


@proves("METRICS_PORT of every service, on loopback only")
def test_figures_are_shown_on_loopback_only(host: tuple[Path, dict[str, int]]) -> None:
    _, ports = host
    listening = Path("/proc/net/tcp").read_text().splitlines()[1:]
    for name, port in ports.items():
        bound = [row.split()[1] for row in listening if f":{port:04X} 00000000:0000" in row]
        assert bound == [f"0100007F:{port:04X}"], name
    assert not any(f":{port:04X}" in Path("/proc/net/tcp6").read_text() for port in ports.values())


@proves("NODE_ENV=production: JSON logs")
def test_with_json_every_line_is_json_of_one_schema(host: tuple[Path, dict[str, int]]) -> None:
    folder, _ = host
    whole, _, _ = read_output(folder).rpartition("\n")  # the last line may be incomplete
    lines = [json.loads(line) for line in whole.splitlines()]
    assert {entry["service"] for entry in lines} == set(OWN)
    for line in lines:
        assert list(line)[:5] == ["time", "level", "service", "namespace", "message"], line


@proves("svcctl doctor")
def test_the_doctor_finds_nothing_wrong_with_a_running_host(
    host: tuple[Path, dict[str, int]],
) -> None:
    folder, _ = host
    done = run("doctor", "--config", folder)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.endswith("No faults found.\n")


@proves("svcctl status --watch")
def test_the_watch_shows_a_live_host_until_ctrl_c(host: tuple[Path, dict[str, int]]) -> None:
    folder, _ = host
    out = folder / "watch.log"
    with out.open("wb") as file:
        command = [SVCCTL, "status", "--watch", "--config", str(folder)]
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=file,
            env={**os.environ, "FORCE_COLOR": "1", "TERM": "xterm"},
        )
    try:
        eventually(lambda: out.read_text().count("registration OPEN") >= 2)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert "Traceback" not in out.read_text()


@proves("logs can be rotated under running services")
def test_a_log_that_is_cut_under_a_service_goes_on_at_its_beginning(
    host: tuple[Path, dict[str, int]],
) -> None:
    """The log, opened for appending, is truncated as logrotate's copytruncate does."""
    folder, _ = host
    log = folder / "own.log"
    first = row_of(20, socket.SOCK_STREAM)
    change(folder, "content", "PORT", str(first + 18))
    change(folder, "content", "METRICS_PORT", str(first + 19))
    twistd = str(Path(SVCCTL).with_name("twistd"))
    with log.open("ab") as out:
        process = subprocess.Popen(
            [twistd, "--nodaemon", "--pidfile=", "svc-content", "--env-file", "content.env"],
            stdout=out,
            stderr=out,
            cwd=folder,
        )
    try:
        eventually(lambda: "content ready" in log.read_text() and answers(first + 19))
        os.truncate(log, 0)
    finally:
        process.terminate()
        process.wait(60)
    last = log.read_text()
    assert "\0" not in last
    assert "Server Shut Down" in last
