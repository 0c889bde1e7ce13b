"""Players who ask and talk while the single metagame is restarted, and killed: they notice nothing.

Two hundred of them for two minutes: ``tests/prove/test_restarts.py``.

Why processes: the metagame is killed under a whole host.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.restarting import evening, host, killed, rolled

pytestmark = pytest.mark.live

PLAYERS = 20
PARK_MS = "30000"  # a start takes long where the machine does much else


@pytest.mark.parametrize("harm", [rolled, killed])
def test_players_notice_nothing(harm: Callable[[Path], None], tmp_path: Path) -> None:
    folder = host(tmp_path / "host", GATEWAY_PARK_MS=PARK_MS)
    report = evening(folder, PLAYERS, 25.0, harm, 9.0, "--strict")
    assert report["failed"] == {}, report
    assert (report["doubled"], report["lost"], report["not_kept"]) == (0, 0, 0), report
    assert report["harms"] >= 1
    assert report["came_back"] >= PLAYERS, report
    assert report["told"] > PLAYERS, report


def test_without_parking_they_do(tmp_path: Path) -> None:
    """The sabotage: what the test above rests on."""
    folder = host(tmp_path / "host", GATEWAY_PARK_MS="0")
    report = evening(folder, PLAYERS, 16.0, killed, 5.0, "--strict")
    assert report["failed"], report
