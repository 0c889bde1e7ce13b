"""Two hosts on one machine that are configured with the same ports.

Real processes are needed because ``svcctl doctor`` reads the command line of the process that
listens on the port.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ctl.hosts import PATIENCE_S, change, demo_host, run, value
from tests.support.processes import eventually

pytestmark = pytest.mark.live


def test_doctor_names_the_host_that_holds_the_port(tmp_path: Path) -> None:
    first, second = demo_host(tmp_path / "first"), tmp_path / "second"
    shutil.copytree(first, second)
    change(second, "metagame", "DATABASE_URL", f"sqlite:///{second}/svc.db")
    port = value(first, "metagame", "PORT")
    with (first / "out.log").open("wb") as out:
        process = subprocess.Popen(
            [
                *(sys.executable, str(Path(sys.executable).with_name("twistd"))),
                *("--nodaemon", "--pidfile=", "svc-metagame", "--env-file", "metagame.env"),
            ],
            cwd=first,
            stdout=out,
            stderr=out,
        )
    try:
        eventually(lambda: "metagame ready" in (first / "out.log").read_text(), PATIENCE_S)
        mine = run("doctor", "--config", first).stdout
        others = run("doctor", "--config", second).stdout
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
    assert f"PORT {port} is used" not in mine
    what = f"PORT {port} is used by the metagame of the host in {first} (process {process.pid})"
    assert f"wrong  metagame: {what}; stop that host" in others
