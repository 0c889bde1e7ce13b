"""The Debian package's units under a running systemd: start, play, upgrade, roll back, stop.

tests/prove/test_systemd.py explains when the test is skipped. ``.ci/packages`` requires the test.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from svcserver.ctl.units import SERVICES, unit
from tests.packages.pages import block
from tests.packages.support import PATIENCE_S, ROOT, System, clean_system, run
from tests.support.requirements import skip

pytestmark = pytest.mark.packages

HERE = Path(__file__).parent
BOOT = ROOT / "tests" / "support" / "systemd.sh"
EVENING_S = 850
PAGE = "upgrade.md"
NEWER = "0.999.1"
PASTED = {  # by the name of the file that the script reads: words of the block, and its example
    "upgrade": ("apt install ./svcserver_NEW", "svcserver_NEW_amd64.deb"),
    "back": ("--allow-downgrades", "svcserver_OLD_amd64.deb"),
    "restore": ('db restore "$before" --config /etc', ""),
}
OWN = ("--pid", "--mount", "--net", "--cgroup", "--ipc", "--uts", "--propagation=private")


# slow: a Debian with systemd, three installations, four starts of a host and two evenings
def test_units_play_upgrade_roll_back_and_stop_by_the_page(tmp_path: Path, package: Path) -> None:
    system = clean_system(tmp_path / "root", "systemd", "sudo", "procps", "iproute2")
    install = ("apt-get", "install", "-y", "-q", "--no-install-recommends")
    system.run(*install, system.copy(package))
    place = system.root / "srv"  # systemd empties /tmp when it begins
    for path in (package, HERE / "deb_evening.sh"):
        shutil.copy(path, place)
    pages(system, {"back": package.name, "upgrade": newer(package, place, tmp_path).name})
    boot = ["unshare", "--fork", "--kill-child", *OWN, "bash", BOOT, system.root]
    ran = subprocess.run(
        [*boot, "/srv/said", str(EVENING_S), "/srv/deb_evening.sh"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    output_file = place / "said"
    if not output_file.is_file():
        raise skip("boot", f"no systemd can be booted here: {ran.stderr.strip()[-300:]}")
    output = output_file.read_text()
    assert "enabled: enabled" in output, output
    for name in SERVICES:
        assert output.count(f"{unit(name).removesuffix('.service')} active ") == 2, output
    assert f"upgrade ended with 0, at {NEWER}\n" in output, output
    assert "as before: 0\n" in output, output  # each service is a different process
    assert f"back ended with 0, at {package.name.split('_')[1]}\n" in output, output
    assert "restore ended with 0, who came since: 0\n" in output, output
    assert "never ready" not in output, output
    assert output.count("all went well") == 2, output
    assert "left over: 0" in output, output


def newer(package: Path, place: Path, scratch: Path) -> Path:
    """Return the same package with a later version number and no other change."""
    unpacked = scratch / "unpacked"
    run("dpkg-deb", "-R", package, unpacked)
    control = unpacked / "DEBIAN" / "control"
    control.write_text(re.sub("(?m)^Version: .*$", f"Version: {NEWER}", control.read_text()))
    made = place / re.sub("_.*_", f"_{NEWER}_", package.name)
    run("dpkg-deb", "-Zgzip", "-z1", "-b", unpacked, made)
    return made


def pages(system: System, packages: Mapping[str, str]) -> None:
    """Write the page's blocks as scripts that install ``packages``; make apt assume yes."""
    for name, (has, example) in PASTED.items():
        names = {example: packages[name]} if example else {}
        text = block(PAGE, has, names, sudo="sudo ")
        (system.root / "srv" / f"{name}.sh").write_text(text)
    yes = system.root / "etc/apt/apt.conf.d/yes"
    yes.write_text('APT::Get::Assume-Yes "true";\n')
