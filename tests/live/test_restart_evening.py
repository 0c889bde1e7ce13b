"""Players who send requests and chat while metagames are restarted and killed.

``tests/prove/test_restarts.py`` does the same with two hundred players for two minutes. Real
processes are needed because the tests kill the metagame of a running host.
"""

import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from svcserver.ctl.blueprint import Scale
from tests.live.restarting import evening, host, killed, rolled
from tests.live.test_workers_stack import Host
from tests.support.postgres import fresh_database
from tests.support.processes import eventually
from tests.support.valkey import fresh_url

pytestmark = pytest.mark.live

PLAYERS = 20
PARK_MS = "30000"  # a start takes long where the machine does much else


# slow: 80 s: an evening of 25 seconds, of which two are restarts
@pytest.mark.parametrize("harm", [rolled, killed])
def test_players_lose_no_request_or_line_during_a_restart(
    harm: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = host(tmp_path / "host", GATEWAY_PARK_MS=PARK_MS)
    report = evening(folder, PLAYERS, 25.0, harm, 9.0, "--strict")
    assert report["failed"] == {}, report
    assert report["once"] > PLAYERS, report
    assert (report["doubled"], report["missing"], report["not_kept"]) == (0, 0, 0), report
    assert report["harms"] >= 1
    assert report["came_back"] >= PLAYERS, report
    assert report["echoed"] > PLAYERS, report


# slow: 50 s: an evening of 30 seconds on a host of seven processes
def test_nobody_notices_the_kill_of_a_worker(tmp_path: Path) -> None:
    """No acknowledged data is lost. The killed worker's players reconnect at the other worker."""
    scale = Scale(2, fresh_database(), fresh_url())
    folder = host(tmp_path / "host", scale=scale, GATEWAY_PARK_MS="0")  # the other serves at once
    running, killing = Host(folder), count()

    def harm(_: Path) -> None:
        number = next(killing)
        eventually(lambda: running.starts() >= scale.workers + number)  # the other serves again
        os.kill(running.workers()[number % scale.workers], signal.SIGKILL)

    report = evening(folder, PLAYERS, 30.0, harm, 10.0)
    assert report["failed"] == {}, report
    assert (report["doubled"], report["missing"], report["not_kept"]) == (0, 0, 0), report
    assert report["harms"] == 2
    assert report["came_back"] >= PLAYERS // 2, report


# slow: 30 s: an evening of 16 seconds
def test_requests_fail_during_a_restart_without_parking(tmp_path: Path) -> None:
    """Check that requests fail if the gateway does not hold them during a restart."""
    folder = host(tmp_path / "host", GATEWAY_PARK_MS="0")
    report = evening(folder, PLAYERS, 16.0, killed, 5.0, "--strict")
    assert report["failed"], report
