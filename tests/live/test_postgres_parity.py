"""Every feature on PostgreSQL: the tests of the metagame once more, on a real server."""

from __future__ import annotations

import re

import pytest

from tests.live.parity import Run
from tests.support.postgres import fresh_database

pytestmark = pytest.mark.live


def test_every_feature_test_holds_on_postgresql(parity_run: Run) -> None:
    fresh_database()  # skips where there is no PostgreSQL, and counts as required
    status, said = parity_run.result()
    verdict = said.splitlines()[-1]
    assert status == 0, said[-8000:]
    assert re.search(r"\b[1-9]\d{2,} passed", verdict) and "skipped" not in verdict, verdict
