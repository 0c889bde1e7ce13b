"""Commands and services that root starts in a host that another user owns.

Real processes are needed because a process that gives up root's rights cannot get them back.
"""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from svcserver.ctl.host_creation import create_host
from tests.ctl.hosts import demo_host, read_output
from tests.live.odd.other_user import UID, bin_folder, give_away, of_root, place, run
from tests.support.processes import eventually

__all__ = ["bin_folder", "place"]
pytestmark = pytest.mark.live


def _host(place: Path) -> Path:
    folder = place / "host"
    create_host(folder, "127.0.0.1", "owner", private=True)
    give_away(folder)
    return folder


# slow: 150 s: two backups, each proven by an evening on a second host
def test_commands_of_root_leave_no_file_of_root(place: Path, bin_folder: Path) -> None:
    folder = _host(place)
    svcctl, config = bin_folder / "svcctl", ["--config", folder]
    for words in (
        ["backup", "now"],
        ["db", "backup", folder / "copy.db"],
        ["db", "check"],
        ["keys", "rotate"],
        ["invite", "create"],
        ["account", "create", "Ann"],
        ["cert", "make", "--host", "127.0.0.1"],
        ["bundle", folder / "bundle.tar.gz"],
        ["content", "manifest"],
        ["db", "restore", folder / "copy.db"],
        ["db", "copy", folder / "metagame.env", f"sqlite:///{folder}/other.db"],
        ["doctor"],
    ):
        done = run([svcctl, *words, *([] if "copy" in words else config)], place)
        assert "Traceback" not in done.stderr, (words, done.stderr)
        assert words == ["doctor"] or done.returncode == 0, done.stderr
        assert of_root(folder) == [], words
    done = run([svcctl, "backup", "nightly", *config], place, uid=UID)
    assert done.returncode == 0, done.stderr


def test_init_by_root_gives_all_files_to_the_folders_owner(place: Path, bin_folder: Path) -> None:
    folder = place / "host"
    folder.mkdir()
    give_away(folder)
    done = run([bin_folder / "svcctl", "init", folder, "--private-host", "127.0.0.1"], place)
    assert done.returncode == 0, done.stderr
    assert (folder / "svc.db").is_file()
    assert of_root(folder) == []


def test_no_planted_link_leads_a_command_of_root_elsewhere(place: Path, bin_folder: Path) -> None:
    folder, target = _host(place), place / "target"
    target.mkdir(mode=0o755)
    (target / "victim").write_text("root's")
    planted = ("backups", "backup-running", "backup-state.new", "metagame.env.new")
    for name in planted:
        os.symlink(target if name == "backups" else target / f"made-{name}", folder / name)
        os.lchown(folder / name, UID, UID)
    os.symlink(target / "victim", folder / "allowlist-audit.log")
    for words in (["backup", "now"], ["keys", "rotate"], ["db", "backup", folder / "backups/x"]):
        run([bin_folder / "svcctl", *words, "--config", folder], place)
    assert [path.name for path in target.iterdir()] == ["victim"]
    assert (target / "victim").read_text() == "root's"


def test_a_link_of_another_user_is_no_way_to_a_host(place: Path, bin_folder: Path) -> None:
    folder = place / "host"
    create_host(folder, "127.0.0.1", "owner", private=True)
    os.symlink(folder, place / "link")
    os.lchown(place / "link", UID, UID)
    done = run([bin_folder / "svcctl", "db", "check", "--config", place / "link"], place)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "is a link of another user" in done.stderr


def test_a_file_outside_that_the_user_may_not_write_is_one_line(
    place: Path, bin_folder: Path
) -> None:
    folder, home = _host(place), place / "home"
    home.mkdir(mode=0o700)
    done = run([bin_folder / "svcctl", "db", "backup", home / "x", "--config", folder], home)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert f"it runs as {UID}" in done.stderr


# slow: a whole host starts
def test_a_stack_started_by_root_runs_as_the_hosts_owner(place: Path, bin_folder: Path) -> None:
    folder = demo_host(place / "host")
    sim = bin_folder / "svc-gameserver-sim"
    text = (folder / "deploy.env").read_text()
    lines = [
        entry for entry in text.splitlines() if not entry.startswith("GAMESERVER_BINARY_PATH=")
    ]
    (folder / "deploy.env").write_text("\n".join([*lines, f"GAMESERVER_BINARY_PATH={sim}", ""]))
    (folder / "out.log").touch()
    give_away(folder)
    twistd = str(bin_folder / "twistd")
    command = [twistd, "--nodaemon", "--pidfile=", "svc-stack", "--config", str(folder)]
    with (folder / "out.log").open("wb") as out:
        stack = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder)
    try:
        eventually(lambda: "stack ready" in read_output(folder) or stack.poll() is not None, 240)
        assert "stack ready" in read_output(folder), read_output(folder)
        status = Path(f"/proc/{stack.pid}/status").read_text()
        assert f"Uid:\t{UID}\t{UID}\t{UID}\t{UID}" in status
        rights = {}
        for child in Path(f"/proc/{stack.pid}/task/{stack.pid}/children").read_text().split():
            words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
            name = next(word for word in words if word.startswith("svc-"))
            line = Path(f"/proc/{child}/status").read_text()
            rights[name] = int(line.partition("CapEff:\t")[2].split()[0], 16)
        assert rights["svc-metagame"] == rights["svc-deploy"] == rights["svc-content"] == 0
        assert rights["svc-gateway"] == rights["svc-allowlist"] == 1 << 10 | 1 << 12
        assert of_root(folder) == []
    finally:
        stack.send_signal(signal.SIGTERM)
        stack.wait(60)
    assert of_root(folder) == []
