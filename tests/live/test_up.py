"""``svcctl up`` on a real host: the summary, the dashboard address and Ctrl-C.

Real processes are needed because the tests run a command in a terminal and end it with Ctrl-C.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path

from tests.ctl.hosts import PATIENCE_S, SVCCTL, demo_host
from tests.live.test_stack import ALL, pid_of
from tests.support.proves import proves


# slow: a stack of six processes
@proves("svcctl up")
def test_the_card_comes_once_all_runs_and_ctrl_c_ends_it(tmp_path: Path) -> None:
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
            assert "runs already" in again.stderr
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
