"""Modules that a metagame needs only to create its database, and must not keep in memory.

Real processes are needed because another test may already have imported the modules in this
process.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

NEVER = ("alembic", "mako", "sqlalchemy.dialects.postgresql", "prometheus_client")
LOOK = f"""
import sys
import svcserver.metagame.service
from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
print(migrations.upgrade_apart(make_engine(database_url(sys.argv[1]))))
print([one for one in {NEVER!r} if one in sys.modules])
"""


def test_modules_that_made_the_database_are_not_in_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOOK, f"sqlite:///{tmp_path}/new.db"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.split() == ["True", "[]"]
