"""Hosts in these tests get a copy of a migrated database, because migrations take long."""

import pytest

from svcserver.db import migrations
from tests.support import migrated


@pytest.fixture(autouse=True)
def _copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each new host a copy of the database; tests/db tests the migrations themselves."""
    monkeypatch.setattr(migrations, "_run", migrated.copy)
