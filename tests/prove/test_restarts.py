"""Two hundred players for two minutes while the single metagame is killed, or restarted.


With the usual patience of the gateway: a start takes about a second of CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.restarting import evening, host, killed, rolled

PLAYERS, SECONDS, EVERY_S = 200, 125.0, 10.0


@pytest.mark.parametrize("harm", [killed, rolled])
def test_two_hundred_players_notice_nothing(harm: Callable[[Path], None], tmp_path: Path) -> None:
    report = evening(host(tmp_path / "host"), PLAYERS, SECONDS, harm, EVERY_S, "--strict")
    print(report)
    assert report["failed"] == {}, report
    assert (report["doubled"], report["lost"], report["not_kept"]) == (0, 0, 0), report
    assert report["harms"] >= 4, report
    assert report["came_back"] >= PLAYERS * report["harms"] // 2, report
