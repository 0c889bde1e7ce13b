"""The metagame's tests again, on a real PostgreSQL server.

Real processes are needed because a second pytest run uses a PostgreSQL server.
"""

import re

import pytest

from tests.live import parity
from tests.support.postgres import fresh_database

pytestmark = pytest.mark.live
AT_LEAST = 1_000  # fewer tests would mean that files with database tests are left out


# slow: 120 s: every feature test once more, on a server that answers over a socket
def test_every_feature_test_holds_on_postgresql() -> None:
    fresh_database()  # skips the test if PostgreSQL is missing, unless the run requires it
    status, body = parity.run()
    verdict = body.splitlines()[-1]
    assert status == 0, body[-8000:]
    passed = re.search(r"\b(\d+) passed", verdict)
    assert passed is not None and int(passed[1]) >= AT_LEAST, verdict
    assert "skipped" not in verdict, verdict
