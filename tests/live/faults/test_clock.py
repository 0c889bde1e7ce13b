"""A change of the machine's clock while a service runs.

Real processes are needed because the tests change the clock of a whole process.
"""

import time
from pathlib import Path

import pytest

from tests.live.test_deploy import HUNT, deploy, hand_out
from tests.support.processes import eventually
from tests.support.proves import proves

pytestmark = pytest.mark.live

# sets the clock back an hour once the file exists; Python runs this code first
CLOCK = """
import os, time
real = time.time
time.time = lambda: real() - 3600 * os.path.exists({file!r})
"""


# slow: two launches a second apart
@proves("deploy: launches queued SECONDS_TO_WAIT_BETWEEN_GAMESERVER_STARTUP apart")
def test_a_clock_set_back_by_an_hour_stops_no_timer(tmp_path: Path) -> None:
    file = tmp_path / "set-back"
    (tmp_path / "sitecustomize.py").write_text(CLOCK.format(file=str(file)))
    spacing = {"HUNT_WORKER": "1", "SECONDS_TO_WAIT_BETWEEN_GAMESERVER_STARTUP": "1"}
    with deploy(tmp_path, PYTHONPATH=str(tmp_path), **spacing) as service:
        assert hand_out(service, HUNT)[0] == 200
        file.touch()
        for _ in range(2):  # each request waits a second for its turn, not an hour
            assert hand_out(service, HUNT)[0] == 200
        hour = time.strftime("%Y-%m-%dT%H", time.gmtime())
        eventually(lambda: service.log[-2000:].splitlines()[-1][:13] < hour)  # the clock was set
