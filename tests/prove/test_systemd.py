"""Our units under a systemd that boots in its own namespaces, with a scripted session.

Spec: 2 §8. The test is skipped where systemd cannot boot. A booting systemd mounts file systems and
cgroups, which needs CAP_SYS_ADMIN. Root inside a container has that capability only if the
container was started with it. Installing a package does not help. Therefore ``.ci/run`` does not
require this test; ``make prove`` runs it. SVC_TEST_REQUIRE=boot makes it required, as in
``.ci/packages``.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.requirements import skip

BOOT = Path(__file__).with_name("boot.sh")
SYSTEMD = Path("/lib/systemd/systemd")
OWN = ("--pid", "--mount", "--net", "--cgroup", "--ipc", "--uts")
PATIENCE_S = 360
NO_RIGHT, NET_ADMIN, LOW_PORTS = "0" * 16, f"{1 << 12:016x}", f"{1 << 10:016x}"
RIGHTS = {
    "metagame": NO_RIGHT,
    "deploy": NO_RIGHT,
    "content": NO_RIGHT,
    "allowlist": NET_ADMIN,
    "gateway": LOW_PORTS,
}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the output of the container."""
    if os.geteuid() != 0 or not SYSTEMD.is_file() or not all(map(shutil.which, ("unshare", "nft"))):
        raise skip("boot", "systemd, unshare and nft are needed, and root")
    out = tmp_path_factory.mktemp("boot")
    inside = [str(BOOT), str(out), sys.executable]
    booted = subprocess.run(
        ["unshare", "--fork", "--kill-child", *OWN, "--propagation=private", "bash", *inside],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if not (out / "said").is_file():
        raise skip("boot", f"no systemd can be booted here: {booted.stderr.strip()[-300:]}")
    return (out / "said").read_text()


def test_every_service_runs_with_the_rights_it_needs_and_no_others(output: str) -> None:
    for name, rights in RIGHTS.items():
        line = f"{name} active svc CapEff: {rights} NoNewPrivs: 1 Seccomp: 2\n"
        assert line in output, output


def test_doctor_and_play_succeed_under_systemd(output: str) -> None:
    assert "doctor ended with 0" in output, output
    assert "play ended with 0" in output, output


def test_a_restart_of_the_deploy_server_ends_no_game_server(output: str) -> None:
    assert "game servers ran on" in output, output


def test_the_watch_runs_and_a_backup_is_made_and_tested(output: str) -> None:
    assert "watch is active, the timer active" in output, output
    assert 'channels: "name":"hook"' in output, output
    assert re.search(r"backup ended with 0: .*(?<!not )tested ", output, re.DOTALL), output


def test_the_helper_shuts_the_game_ports_of_a_real_firewall(output: str) -> None:
    assert "udp dport 8770-8777 drop" in output, output


def test_a_killed_gateway_restarts_and_a_stop_leaves_no_process(output: str) -> None:
    assert "gateway came back" in output, output
    assert "left over: 0" in output, output
