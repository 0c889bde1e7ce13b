"""The start-up time of ``svcctl`` in its own process.

Real processes are needed because the tests measure the start of a new interpreter.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ctl.hosts import demo_host, run
from tests.support.proves import proves

pytestmark = pytest.mark.live

HEAVY = ("sqlalchemy", "alembic", "cryptography", "autobahn", "twisted.internet", "segno")
AT_MOST_S = 0.25  # seconds of CPU time, because the machine may be busy
AT_MOST_TIMES = 12  # times the CPU time of a bare interpreter, because the machine may be slow
RUNS = 5  # only the fastest run counts

USED = """
used = resource.getrusage(resource.RUSAGE_SELF)
print([one for one in heavy if one in sys.modules], used.ru_utime + used.ru_stime)
"""
BARE = f"import resource, sys\nheavy = ()\n{USED}"
LOOK = f"""
import resource, sys
from svcserver.ctl.main import main
heavy = {HEAVY!r}
try:
    main(["--version"])
except SystemExit:
    pass
{USED}"""


@proves("svcctl --version imports no command")
def test_the_version_prints_fast_and_imports_no_command() -> None:
    assert least_s(LOOK) < max(AT_MOST_S, AT_MOST_TIMES * least_s(BARE))


def least_s(program: str) -> float:
    """Run a program several times, and return the CPU time of the run that used the least.

    Fail if a run imports a heavy module.
    """
    took = []
    for _ in range(RUNS):
        ran = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
        )
        heavy, used = ran.stdout.splitlines()[-1].rsplit(" ", 1)
        assert heavy == "[]"
        took.append(float(used))
    return min(took)


def test_export_and_deletion_cover_every_table(tmp_path: Path) -> None:
    host = demo_host(tmp_path / "host")
    assert run("account", "create", "Zed", "--config", host).returncode == 0
    for words in (("export", "Zed", tmp_path / "one"), ("delete", "Zed", "--yes", "--export")):
        more = () if words[0] == "export" else (tmp_path / "two",)
        ran = run("account", *words, *more, "--config", host)
        assert (ran.returncode, ran.stderr) == (0, "")
    assert "accounts" in json.loads((tmp_path / "two").read_text())["tables"]
