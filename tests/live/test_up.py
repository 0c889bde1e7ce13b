"""``svcctl up`` on a real host: the summary, the dashboard address and Ctrl-C.

Real processes are needed because the tests run a command in a terminal and end it with Ctrl-C.
"""

import json
import os
import random
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from svcserver.ctl.doctor.machine import Machine
from svcserver.ctl.init import place_of, taken_port
from tests.ctl.hosts import PATIENCE_S, SVCCTL, demo_host, end_game_servers, run
from tests.live.test_stack import ALL, pid_of
from tests.support import prestarted
from tests.support.proves import proves


# slow: a stack of six processes
@proves("svcctl up")
def test_up_prints_its_card_once_all_runs_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    command = [SVCCTL, "up", str(folder), "--yes", "--invite", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) as process:
        try:
            assert process.stdout is not None
            card = json.loads(process.stdout.readline())
            assert card["components"] == list(ALL)
            assert card["join"].startswith("svc://join?")
            with urllib.request.urlopen(card["dashboard"], timeout=10) as page:  # noqa: S310
                assert b"<html" in page.read()
            again = subprocess.run(command, capture_output=True, check=False, text=True)
            assert again.returncode == 1
            assert "is already running" in again.stderr
            assert card["dashboard"] in again.stderr
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)
    assert process.returncode in (0, -signal.SIGINT)
    assert [pid_of(folder, component) for component in ALL] == [None] * len(ALL)
    ready = [
        component
        for component in (folder / "stack.log").read_text().splitlines()
        if "stack ready" in component
    ]
    assert ready[0].endswith(f"; dashboard: {card['dashboard']}")


@contextmanager
def host_at(folder: Path, base_port: int) -> Iterator[Any]:
    """Run ``svcctl up`` for a new host with this base port; yield what it prints."""
    words = ["up", str(folder), "--yes", "--public-host", "127.0.0.1", "--json"]
    words += ["--base-port", str(base_port)]
    read, write = os.pipe()
    process = prestarted.start(words, os.environ, Path.cwd(), write, 2, program="svcctl")
    os.close(write)
    with open(read) as card:
        try:
            yield json.loads(card.readline())
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)
            end_game_servers(folder)


# slow: two stacks of six processes
def test_two_hosts_run_on_one_machine(tmp_path: Path) -> None:
    bases = [
        base
        for base in random.sample(range(12_000, 32_000, 300), 50)
        if not taken_port(place_of("127.0.0.1", None, base), Machine())
    ]
    with ExitStack() as hosts:
        cards = [
            hosts.enter_context(host_at(tmp_path / str(base), base)) for base in sorted(bases[:2])
        ]
        for base, card in zip(sorted(bases[:2]), cards, strict=True):
            assert card["dashboard"] == f"http://127.0.0.1:{base}/svc/dashboard"
        evenings = []
        for base in sorted(bases[:2]):
            host = tmp_path / str(base)
            words = ["play", "--players", "1", "--hunts", "0", "--config", str(host)]
            with (host / "play.log").open("wb") as out:
                started = prestarted.start(
                    words, os.environ, Path.cwd(), out.fileno(), program="svcctl"
                )
            evenings.append((started, host / "play.log"))
        for evening, log in evenings:  # at the same time, each with its own host's relay port
            assert evening.wait(PATIENCE_S) == 0, log.read_text()
        words = ["up", str(tmp_path / "third"), "--yes", "--public-host", "127.0.0.1"]
        words += ["--base-port", str(bases[0])]
        third = run(*words)
        assert third.returncode == 1
        assert f"is taken by the metagame of the host in {tmp_path / str(bases[0])}" in third.stderr
