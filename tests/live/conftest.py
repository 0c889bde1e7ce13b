"""Hosts in these tests get a copy of a migrated database, because migrations take long."""

from collections.abc import Iterator

import pytest

from svcserver.db import migrations
from tests.support import migrated


@pytest.fixture(scope="package", autouse=True)
def _copied() -> Iterator[None]:
    """Give each new host a copy of the database, also in the set-up of a file's fixtures."""
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(migrations, "_run", migrated.copy)
        yield
