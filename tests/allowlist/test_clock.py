"""The allowlist helper while the system clock is being set."""

import tempfile

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.allowlist import service
from svcserver.allowlist.settings import AllowlistSettings
from svcserver.kernel.monotonic import MonotonicClock
from svcserver.kernel.settings import load
from tests.allowlist.support import SECRET
from tests.support.proves import proves


class ClockTests(SynchronousTestCase):
    @proves("event: ports open for an address for 10 minutes")
    def test_setting_the_clock_changes_no_open_address(self) -> None:
        folder = self.enterContext(tempfile.TemporaryDirectory())
        wall, passed = [1_800_000_000.0], [0.0]
        steady = MonotonicClock(lambda: wall[0], lambda: passed[0])
        self.patch(service, "MonotonicClock", lambda: steady)
        environ = {
            "ALLOWLIST_DRY_RUN": "1",
            "ALLOWLIST_SECRET": SECRET,
            "ALLOWLIST_AUDIT_LOG": f"{folder}/audit.log",
            "ALLOWLIST_STATE_FILE": f"{folder}/state.json",
        }
        helper = service.make_helper(load(AllowlistSettings, environ)[0], Clock())
        helper.allow("203.0.113.7")
        wall[0] += 3600
        self.assertEqual(len(helper.status()["entries"]), 1)
        wall[0] -= 7200
        passed[0] += 700  # a TTL is 600
        self.assertEqual(helper.status()["entries"], [])
