"""The Debian package's own units under a live systemd: started, played on, restarted, stopped.

Why it may be skipped: see tests/prove/test_systemd.py. ``.ci/packages`` insists on it.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from svcserver.ctl.units import SERVICES, unit
from tests.packages.support import PATIENCE_S, ROOT, clean_system
from tests.support.requirements import skip

pytestmark = pytest.mark.packages

HERE = Path(__file__).parent
BOOT = ROOT / "tests" / "support" / "systemd.sh"
EVENING_S = 850
OWN = ("--pid", "--mount", "--net", "--cgroup", "--ipc", "--uts", "--propagation=private")


# slow: a Debian with systemd, two installations, two starts of a host and two evenings
def test_its_units_play_are_restarted_by_apt_and_stop_as_a_whole(
    tmp_path: Path, package: Path
) -> None:
    system = clean_system(tmp_path / "root", "systemd", "procps", "iproute2")
    install = ("apt-get", "install", "-y", "-q", "--no-install-recommends")
    system.run(*install, system.copy(package))
    for one in (package, HERE / "deb_evening.sh"):
        shutil.copy(one, system.root / "srv")  # systemd empties /tmp when it begins
    boot = ["unshare", "--fork", "--kill-child", *OWN, "bash", BOOT, system.root]
    ran = subprocess.run(
        [*boot, "/srv/said", str(EVENING_S), "/srv/deb_evening.sh"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    told = system.root / "srv" / "said"
    if not told.is_file():
        raise skip("boot", f"no systemd can be booted here: {ran.stderr.strip()[-300:]}")
    said = told.read_text()
    assert "enabled: enabled" in said, said
    for name in SERVICES:
        assert said.count(f"{unit(name).removesuffix('.service')} active ") == 2, said
    assert "apt ended with 0" in said, said
    assert "as before: 0\n" in said, said  # each of them is another process
    assert "never ready" not in said, said
    assert said.count("all went well") == 2, said
    assert "left over: 0" in said, said
