"""How quickly ``svcctl`` starts, in a process of its own.

Why processes: the time of a start from nothing.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.proves import proves

pytestmark = pytest.mark.live

HEAVY = ("sqlalchemy", "alembic", "cryptography", "autobahn", "twisted.internet", "segno")
AT_MOST_S = 0.3  # of processor time: the machine may be busy

LOOK = f"""
import resource, sys
from svcserver.ctl.main import main
try:
    main(["--version"])
except SystemExit:
    pass
used = resource.getrusage(resource.RUSAGE_SELF)
print([one for one in {HEAVY!r} if one in sys.modules], used.ru_utime + used.ru_stime)
"""


@proves("svcctl --version imports no command")
def test_the_version_is_told_at_once_without_importing_a_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=60, check=True
    )
    heavy, used = ran.stdout.splitlines()[-1].rsplit(" ", 1)
    assert heavy == "[]"
    assert float(used) < AT_MOST_S
