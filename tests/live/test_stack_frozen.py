"""A service that is frozen while its port stays open.

Real processes are needed because the kernel accepts connections for a process that is
suspended.
"""

import os
import signal
from pathlib import Path

import pytest

from tests.ctl.hosts import change, demo_host, read_output, stack
from tests.live.test_stack import pid_of
from tests.support.processes import eventually
from tests.support.proves import proves

pytestmark = pytest.mark.live


# slow: 60 s: it must be silent for twenty seconds
@proves("a service that is frozen is down")
def test_a_frozen_service_is_killed_and_comes_back(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    change(folder, "stack", "FROZEN_SECONDS", "20")
    with stack(folder):
        eventually(lambda: "stack ready" in read_output(folder))
        frozen = pid_of(folder, "content")
        assert frozen is not None
        os.kill(frozen, signal.SIGSTOP)
        eventually(lambda: "content runs, but has answered nothing" in read_output(folder), 180)
        eventually(lambda: pid_of(folder, "content") not in (None, frozen), 180)
        eventually(lambda: "content ended (signal 9)" in read_output(folder), 180)
        eventually(lambda: read_output(folder).count("content ready on") == 2, 180)
        assert read_output(folder).count("it is killed") == 1
