"""``svcctl play`` and related commands beside a running host.

Real processes are needed because the tests kill and restart the host during ``svcctl play``.
"""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.ctl.hosts import PATIENCE_S, change, completed, demo_host, read_output, run, stack, value
from tests.support import prestarted
from tests.support.processes import eventually
from tests.support.proves import proves


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    host = demo_host(tmp_path_factory.mktemp("play") / "host")
    change(host, "metagame", "REGISTRATION_MODE", "INVITECODE")
    with stack(host):
        eventually(lambda: "stack ready" in read_output(host))
        yield host


def metagame(folder: Path) -> str:
    return f"http://127.0.0.1:{value(folder, 'metagame', 'PORT')}"


# slow: an evening of three players
@proves("svcctl play")
def test_an_evening_with_invites_leaves_no_code_behind(folder: Path) -> None:
    ran = run("play", "--config", folder, "--players", 3)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert json.loads(run("invite", "list", "--json", "--config", folder).stdout) == {"invites": []}
    assert "3 accounts and all their data were deleted again" in ran.stdout
    with closing(sqlite3.connect(folder / "svc.db")) as tx:
        assert list(tx.execute("SELECT username FROM accounts")) == [("owner",)]
        assert list(tx.execute("SELECT id FROM characters")) == []
        assert list(tx.execute("SELECT character_id FROM character_saves")) == []
        assert list(tx.execute("SELECT id FROM guilds")) == []


# slow: an evening with hunts of ten seconds, during which the host is restarted
@proves("svcctl play")
def test_a_rolling_restart_is_survived_and_counted(folder: Path) -> None:
    words = ["play", "--players", "3", "--hunt-seconds", "10", "--times", "--config", str(folder)]
    read, write = os.pipe()
    with (folder / "errors.txt").open("wb") as errors:
        errors_to = errors.fileno()
        playing = prestarted.start(
            words, os.environ, Path.cwd(), write, errors_to, program="svcctl"
        )
    os.close(write)
    with open(read) as printed:
        lines = []
        for line in printed:
            lines.append(line)
            if "founded the guild" in line:  # the first log-ins to the chat follow
                restarted = run("restart", "--rolling", "--config", folder)
                assert restarted.returncode == 0, restarted.stderr
    status, deliveries = playing.wait(), (folder / "errors.txt").read_text()
    assert (status, deliveries) == (0, ""), "".join(lines)
    text = "".join(lines)
    assert "3 chat connections ended and came back" in text, text
    assert "chat reconnection  " in text, text
    assert "all went well" in text, text


@proves("svcctl play")
def test_a_url_alone_is_played_past_relay_and_gateway(folder: Path) -> None:
    words = ("play", "--config", folder, "--url", metagame(folder), "--players", 2, "--json")
    ran = run(*words)
    assert ran.returncode == 0, ran.stderr
    output = json.loads(ran.stdout)
    assert (output["ok"], output["players"]) == (True, 2)


def test_without_a_host_or_a_url_there_is_one_line(tmp_path: Path) -> None:
    ran = completed(["play"], tmp_path, "svcctl")
    assert ran.returncode == 1
    assert ran.stderr == (
        "svcctl: the session failed at the host: unknown; "
        "give --config DIR, or the metagame's --url\n"
    )


@proves("svcctl play")
def test_play_names_a_url_where_nothing_listens() -> None:
    ran = run("play", "--url", "http://127.0.0.1:9", "--players", 1)
    assert ran.returncode == 1
    assert "at the metagame: nothing listens on http://127.0.0.1:9" in ran.stderr


def test_a_host_whose_file_is_gone_is_one_line(tmp_path: Path) -> None:
    host = demo_host(tmp_path / "host")
    (host / "content.env").unlink()
    done = run("play", "--config", host)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "content.env cannot be read" in done.stderr


def test_a_private_host_is_played_without_a_gateway(folder: Path) -> None:
    """The specification defines private mode in 1 §1."""
    gateway = (folder / "gateway.env").rename(folder / "gateway.away")
    try:
        done = run("play", "--config", folder, "--players", 2)
    finally:
        gateway.rename(folder / "gateway.env")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "all went well" in done.stdout


def test_a_busy_relay_port_is_named(folder: Path) -> None:
    port = value(folder, "gateway", "GATEWAY_PORT")
    ran = run("play", "--config", folder, "--relay-port", port)
    assert ran.returncode == 1
    assert f"at the relay: port {port} is taken by the gateway of the host in " in ran.stderr


@proves("svcctl db")
def test_the_database_commands_work_beside_the_running_metagame(folder: Path) -> None:
    key = json.loads(run("account", "create", "Live_1", "--json", "--config", folder).stdout)["key"]
    shown = run("status", "--json", "--key", key, "--config", folder)
    assert shown.returncode == 0, shown.stderr
    copy = folder / "copy.db"
    assert run("db", "backup", copy, "--config", folder).returncode == 0
    with closing(sqlite3.connect(copy)) as db:
        names = {row[0] for row in db.execute("SELECT username FROM accounts")}
    assert "Live_1" in names
    refused = run("db", "restore", copy, "--config", folder)
    assert (refused.returncode, "the host is running: " in refused.stderr) == (1, True), (
        refused.stderr
    )
    assert run("db", "check", "--config", folder).returncode == 0
    listed = json.loads(run("account", "list", "--json", "--config", folder).stdout)["accounts"]
    assert "Live_1" in {account["username"] for account in listed}
    again = run("status", "--key", key, "--config", folder)
    assert again.returncode == 0, again.stderr


@proves("svcctl relay check")
def test_relay_check_tells_the_pinned_certificate_from_another(folder: Path) -> None:
    good = run("relay", "check", "--config", folder)
    assert good.returncode == 0, good.stderr
    join = json.loads(run("invite", "create", "--json", "--config", folder).stdout)["join"]
    pinned = run("cert", "fingerprint", "--config", folder).stdout.strip()
    bad = run("relay", "check", "--invite", join.replace(pinned, "0" * 64))
    assert bad.returncode == 1 and pinned in bad.stderr


def accounts_and_invites(folder: Path) -> tuple[list[tuple[str]], str]:
    with closing(sqlite3.connect(folder / "svc.db")) as tx:
        accounts = tx.execute("SELECT username FROM accounts ORDER BY username").fetchall()
    return accounts, run("invite", "list", "--json", "--config", folder).stdout


def interrupted(words: list[str], at: str, how: signal.Signals, folder: Path) -> tuple[str, str]:
    """Run ``svcctl`` and send it the signal when ``at`` was printed; return its output and errors.

    Its status must be 1.
    """
    out, errors = folder / "out", folder / "errors"
    with out.open("wb") as first, errors.open("wb") as second:
        files = first.fileno(), second.fileno()
        process = prestarted.start(words, os.environ, Path.cwd(), *files, program="svcctl")
    try:
        eventually(lambda: at in out.read_text(), PATIENCE_S)
        process.send_signal(how)
        assert process.wait(PATIENCE_S) == 1, out.read_text()
    finally:
        process.kill()
        process.wait(30)
    return out.read_text(), errors.read_text()


STOPPED = "svcctl: stopped before the session ended\n"


# slow: an evening of two players, interrupted before their hunt
@proves("svcctl play")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGHUP], ids=["Ctrl-C", "closed terminal"])
def test_an_interrupted_play_deletes_its_accounts(
    how: signal.Signals, folder: Path, tmp_path: Path
) -> None:
    before = accounts_and_invites(folder)
    words = ["play", "--config", str(folder), "--players", "2", "--hunt-seconds", "60"]
    out, errors = interrupted(words, "founded the guild", how, tmp_path)
    assert errors == STOPPED
    assert "2 accounts and all their data were deleted again" in out
    assert accounts_and_invites(folder) == before


# slow: a stack of six processes
@proves("svcctl demo")
def test_the_demo_runs_until_it_is_interrupted(tmp_path: Path) -> None:
    host = demo_host(tmp_path / "host")
    words = ["demo", "--config", str(host), "--players", "1", "--hunts", "0"]
    with (tmp_path / "out").open("wb") as out:
        process = prestarted.start(words, os.environ, Path.cwd(), out.fileno(), program="svcctl")
    try:
        eventually(lambda: "Ctrl-C stops everything" in (tmp_path / "out").read_text(), PATIENCE_S)
        key = (host / "owner.key").read_text().strip()
        assert run("status", "--key", key, "--config", host).returncode == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait(30)
    assert run("status", "--config", host).returncode == 1
    text = (tmp_path / "out").read_text()
    assert (
        "Traceback" not in text
        and f"https://127.0.0.1:{value(host, 'gateway', 'GATEWAY_PORT')}" in text
    )


# slow: a stack of six processes
def test_ctrl_c_in_mid_evening_is_no_fault_of_the_host(tmp_path: Path) -> None:
    host = demo_host(tmp_path / "host")
    words = ["demo", "--config", str(host), "--players", "2", "--hunt-seconds", "60"]
    _, errors = interrupted(words, "all have logged in", signal.SIGINT, tmp_path)
    assert errors == STOPPED
    assert run("status", "--config", host).returncode == 1
