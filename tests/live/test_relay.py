"""The relay as a real process: certificate pin, port and ``--check``.

Real processes are needed because the tests check exit statuses, output and the log file.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from svcserver.edge.invite import Invite, encode
from svcserver.relay.checking import verdict
from svcserver.relay.relaying import Target
from tests.live.edge_host import DEADLINE_S, ROOT, free_port, running
from tests.support.proves import proves

pytestmark = pytest.mark.live


@proves("relay: 502 certificate_mismatch")
def test_another_certificate_gets_nothing_at_all(tmp_path: Path) -> None:
    with running(tmp_path, pin="ff" * 32) as host:
        for _ in range(2):
            status, _, body = host.ask("POST", "/login", "key")
            assert (status, body) == (502, b'{"error":"certificate_mismatch"}')
        assert host.received == []
        host.relay.terminate()
        host.relay.wait(DEADLINE_S)
        assert host.logs[1].read_text().count(host.pair.fingerprint) == 1
        where = Target("127.0.0.1", host.gateway_port, "ff" * 32)
        good, line = verdict(where, 5)
        assert not good
        assert line.startswith("certificate_mismatch")
        assert host.pair.fingerprint in line


def relay_command(*words: str) -> subprocess.CompletedProcess[str]:
    twistd = str(Path(sys.executable).parent / "twistd")
    return subprocess.run(
        [twistd, "--nodaemon", "--pidfile=", "svc-relay", *words],
        env={"PATH": "/usr/bin:/bin", "HOME": "/tmp"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


@proves("relay: forwards every request unchanged")
def test_a_first_upload_of_128_kib_passes_the_relay(tmp_path: Path) -> None:
    with running(tmp_path) as host:
        status, _, _ = host.ask("POST", "/save", "x" * 131_000)
        assert status == 200
        assert len(host.received[0]["body"]) == 131_000


@proves("relay: check")
def test_check_passes_with_the_pin_and_fails_without_a_gateway(tmp_path: Path) -> None:
    with running(tmp_path) as host:
        invite = Invite(
            "127.0.0.1", host.gateway_port, "Friday", "ABCD-EFGH", host.pair.fingerprint
        )
        (tmp_path / "join.txt").write_text(encode(invite))
        done = relay_command("--invite", str(tmp_path / "join.txt"), "--check")
        assert done.returncode == 0
        assert host.pair.fingerprint in done.stdout
    done = relay_command("--invite", encode(invite), "--check")
    assert done.returncode == 1
    assert "upstream_unreachable" in done.stdout


@proves("relay: settings and port_busy")
def test_a_bad_invite_ends_the_start_with_one_line() -> None:
    done = relay_command("--invite", "svc://join?v=3")
    assert done.returncode == 1
    output = (done.stdout + done.stderr).strip()
    assert output.startswith("svc-relay: SVC_RELAY_INVITE")
    assert "\n" not in output


@proves("relay: check")
def test_relay_check_reports_an_unreachable_gateway() -> None:
    good, line = verdict(Target("127.0.0.1", free_port(), "ff" * 32), 2)
    assert not good
    assert line.startswith("upstream_unreachable")
