"""Two hundred players for two minutes while the only metagame is killed or restarted.

The gateway has its usual settings. A start of the metagame takes about a second of CPU time. On a
busy machine it can take longer than the gateway holds players' requests, and the test then fails
(set ``PARK_MS`` in the environment).
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from svcserver.ctl.blueprint import Scale
from tests.live.restarting import evening, host, killed, rolled
from tests.support.postgres import fresh_database
from tests.support.valkey import fresh_url

PLAYERS, SECONDS, EVERY_S = 200, 125.0, 10.0
IN_TURN = 20


# a rolling restart takes longer than a kill
@pytest.mark.parametrize(("harm", "times"), [(killed, 11), (rolled, 6)])
def test_two_hundred_players_notice_nothing(
    harm: Callable[[Path], None], times: int, tmp_path: Path
) -> None:
    park = os.environ.get("PARK_MS", "5000")
    folder = host(tmp_path / "host", GATEWAY_PARK_MS=park)
    report = evening(folder, PLAYERS, SECONDS, harm, EVERY_S, "--strict", itself=True)
    print(report)
    assert report["failed"] == {}, report
    assert report["once"] > report["requests"] // 3, report
    assert (report["doubled"], report["missing"], report["not_kept"]) == (0, 0, 0), report
    assert report["harms"] >= times, report
    # otherwise too little was said to lose any; on a slow machine players say less
    assert report["told"] >= report["lines"] // 2 > 2 * PLAYERS, report
    assert report["came_back"] >= PLAYERS * report["harms"] // 2, report


def test_nobody_notices_that_two_workers_are_restarted_in_turn(tmp_path: Path) -> None:
    """All players chat, and reconnect at the other worker or at the restarted worker."""
    scale = Scale(2, fresh_database(), fresh_url())
    folder = host(tmp_path / "host", scale=scale, GATEWAY_PARK_MS="0")  # the other serves at once
    report = evening(folder, IN_TURN, 60.0, rolled, 15.0)
    assert report["failed"] == {}, report
    assert (report["doubled"], report["missing"], report["not_kept"]) == (0, 0, 0), report
    assert report["harms"] >= 2, report
    assert report["came_back"] >= IN_TURN * report["harms"], report
