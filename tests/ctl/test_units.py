"""A host's systemd units: valid, with few permissions, generated from one source. Spec: 2 §8."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.units import (
    BACKUP,
    KEEPERS,
    NIGHT,
    SERVICES,
    TARGET,
    WATCH,
    UnitPaths,
    files,
    unit,
)
from svcserver.kernel.backup_settings import BackupSettings
from tests.ctl.command import new_host, nowhere
from tests.support import requirements
from tests.support.proves import proves

DOCS = Path(__file__).resolve().parents[2] / "docs" / "host"
BOARD = "grafana.json"  # the same file for every host
EXPOSURE = 3.0  # score of systemd-analyze security, 0 (best) to 10; our services have less than 2
ANALYZE = shutil.which("systemd-analyze")


class UnitTests(SynchronousTestCase):
    @proves("systemd units with few rights, written by svcctl init")
    def test_the_documented_units_equal_those_that_init_writes(self) -> None:
        written = {path.name: path.read_text() for path in DOCS.iterdir() if path.name != BOARD}
        self.assertEqual(written, files(UnitPaths()), "run python -m svcserver.ctl.units docs/host")

    @proves("systemd units with few rights, written by svcctl init")
    def test_init_writes_units_with_the_hosts_own_paths(self) -> None:
        folder = new_host(nowhere(self))
        names = {path.name for path in (folder / "host").iterdir()}
        self.assertEqual(names, {TARGET, "svcserver.logrotate", *map(unit, SERVICES), *KEEPERS})
        for name in SERVICES:
            text = (folder / "host" / unit(name)).read_text()
            match = re.search(r"^ExecStart=(\S+)", text, re.MULTILINE)
            assert match is not None
            self.assertTrue(Path(match[1]).is_file())
            self.assertIn(f"--env-file {folder}/{name}.env\n", text)
            self.assertIn(f"ReadWritePaths={folder}\n", text)

    @proves("systemd units with few rights, written by svcctl init")
    def test_each_unit_has_no_more_rights_than_it_needs(self) -> None:
        made = files(UnitPaths())
        for name in SERVICES:
            text = made[unit(name)]
            right = re.findall(r"^CapabilityBoundingSet=(.*)$", text, re.MULTILINE)
            wanted = {"gateway": "CAP_NET_BIND_SERVICE", "allowlist": "CAP_NET_ADMIN"}
            self.assertEqual(right, [wanted.get(name, "")])
            self.assertIn("User=svc\n", text)
            self.assertIn("ProtectHome=yes\n", text)
            self.assertEqual("SystemCallFilter" in text, name != "deploy")

    @proves("systemd units: a nightly backup, and alerts")
    def test_units_include_a_backup_timer_and_a_watcher(self) -> None:
        folder = new_host(nowhere(self))

        def line(file: str, name: str) -> str:
            match = re.search(rf"^{name}=(.*)$", (folder / "host" / file).read_text(), re.MULTILINE)
            assert match is not None, (file, name)
            return match[1]

        program, *words = line(BACKUP, "ExecStart").split()
        self.assertTrue(Path(program).is_file())
        self.assertEqual(words, ["backup", "nightly", "--config", str(folder)])
        self.assertEqual(line(BACKUP, "Type"), "oneshot")
        default = BackupSettings().at
        assert default is not None
        self.assertEqual(line(NIGHT, "OnCalendar"), f"*-*-* {default:%H:%M:%S}")
        program, *words = line(WATCH, "ExecStart").split()
        self.assertTrue(Path(program).is_file())
        self.assertEqual(words[-3:], ["svc-watch", "--config", str(folder)])
        wanted = line(TARGET, "Wants").split()
        self.assertEqual(wanted, [*map(unit, SERVICES), WATCH, NIGHT])

    def test_a_host_in_somebodys_home_can_still_be_read(self) -> None:
        for place in (
            UnitPaths(folder=Path("/home/olga/game")),
            UnitPaths(program=Path("/root/svcserver/.venv/bin/twistd")),
            UnitPaths(python=Path("/home/olga/.pyenv/versions/3.12/bin/python3.12")),
        ):
            self.assertIn("ProtectHome=read-only\n", files(place)[unit("metagame")])

    def test_a_folder_with_a_space_stays_one_word(self) -> None:
        here = files(
            UnitPaths(folder=Path("/srv/our $5 game, 100%"), program=Path("/opt/a b/twistd"))
        )
        text = here[unit("metagame")]
        line = (
            'ExecStart="/opt/a b/twistd" --nodaemon --pidfile= svc-metagame'
            ' --env-file "/srv/our $$5 game, 100%%/metagame.env"\n'
        )
        self.assertIn(line, text)
        self.assertIn("WorkingDirectory=/srv/our $5 game, 100%%\n", text)
        self.assertIn('ReadWritePaths="/srv/our $5 game, 100%%"\n', text)
        folder = '"/srv/our $5 game, 100%/'
        self.assertIn(f'{folder}stack.log" {folder}bodies.log" {{\n', here["svcserver.logrotate"])

    def test_the_units_of_a_host_without_a_gateway_start_none(self) -> None:
        made = files(UnitPaths(), ["metagame", "deploy"])
        self.assertNotIn("gateway", "".join(made))
        wants = f"Wants=svc-metagame.service svc-deploy.service {WATCH} {NIGHT}\n"
        self.assertIn(wants, made[TARGET])


@pytest.mark.live
@proves("systemd units with few rights, written by svcctl init")
def test_systemd_verifies_every_unit_and_rates_its_exposure_low(tmp_path: Path) -> None:
    if ANALYZE is None:
        raise requirements.skip("systemd", "systemd-analyze is not installed")
    installed = tmp_path / "100% ours"
    installed.mkdir()
    twistd = installed / "twistd"
    for program in (twistd, installed / "svcctl"):
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    units = tmp_path / "units"
    units.mkdir()
    for name, text in files(UnitPaths(Path("/srv/a game"), twistd)).items():
        (units / name).write_text(text)
    paths = sorted(str(item) for item in units.iterdir() if item.suffix != ".logrotate")
    done = subprocess.run(
        [ANALYZE, "verify", "--man=no", *paths], capture_output=True, text=True, timeout=60
    )
    if "/run/systemd" in done.stderr:
        raise requirements.skip("systemd", "only root can make /run/systemd, which is missing here")
    messages = [item for item in done.stderr.splitlines() if "svc" in item]
    assert (done.returncode, messages) == (0, []), done.stderr
    for name in SERVICES:
        score = exposure(units / unit(name))
        limit = EXPOSURE if SERVICES[name].confined else 2 * EXPOSURE
        assert score < limit, f"{name} is exposed {score}"
    assert exposure(units / WATCH) < EXPOSURE
    assert exposure(units / BACKUP) < 2 * EXPOSURE


def exposure(path: Path) -> float:
    """Return the exposure score that ``systemd-analyze security`` prints."""
    assert ANALYZE is not None
    done = subprocess.run(
        [ANALYZE, "security", "--offline=true", "--no-pager", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    match = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    assert match is not None, done.stdout + done.stderr
    return float(match[1])
