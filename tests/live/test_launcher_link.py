"""The link to the launcher's page, which only the player's own browser gets and can use.

Real processes are needed because the browser and the other user's program are separate processes.
"""

import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import orjson
import pytest
from playwright.sync_api import Browser, expect

from tests.launcher.around import invite_text
from tests.live.players_host import LAUNCHER, environ_of, launcher, link_of
from tests.live.real_browser import browser
from tests.support.nobody import as_nobody
from tests.support.processes import eventually
from tests.support.requirements import skip

__all__ = ["browser"]  # a fixture

pytestmark = pytest.mark.live

LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/#([0-9a-f]+)")


@contextmanager
def opened_by_it(home: Path, opened: Path) -> Iterator[dict[str, str]]:
    """Start a launcher with a fake browser that records the link; yield its environment."""
    home.mkdir()
    browser = home / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o755)
    environ = {**environ_of(home), "BROWSER": str(browser)}
    command = [LAUNCHER, "--key-file", "--no-links"]
    with subprocess.Popen(command, env=environ, cwd=home, stdin=subprocess.DEVNULL) as running:
        try:
            yield environ
        finally:
            running.terminate()


def entered(port: str, token: str, who: Sequence[str] = ()) -> tuple[int, dict[str, str]]:
    """Request the page's content with the link's token; return the status and the JSON."""
    own = f"http://127.0.0.1:{port}"
    words = ["-s", "-m", "20", "-w", "%{http_code}", "-H", f"Origin: {own}"]
    body = ["-d", orjson.dumps({"token": token}).decode(), f"{own}/api/enter"]
    ran = subprocess.run(
        [*who, "curl", *words, *body],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd="/",
    )
    return int(ran.stdout[-3:]), orjson.loads(ran.stdout[:-3])


def links(opened: Path, count: int) -> list[tuple[str, str]]:
    """Wait until the browser has opened ``count`` links; return the port and token of each."""
    eventually(lambda: opened.exists() and len(opened.read_text().splitlines()) >= count)
    result = [LINK.fullmatch(line) for line in opened.read_text().splitlines()]
    assert all(result)
    return [(item[1], item[2]) for item in result if item is not None]


def test_the_browser_gets_the_link_which_serves_no_other_user(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("curl") is None:
        raise skip("curl", "another user can be played by root with curl alone")
    opened = tmp_path / "opened"
    with opened_by_it(tmp_path / "home", opened) as environ:
        [(port, token)] = links(opened, 1)
        assert entered(port, token, as_nobody()) == (403, {"error": "user"})
        status, body = entered(port, token)
        assert (status, list(body)) == (200, ["session"])
        command = [LAUNCHER, "--key-file", "--no-links", invite_text()]
        subprocess.run(command, env=environ, timeout=60, check=True)
        assert links(opened, 2)[1][0] == port


def test_one_of_two_launchers_started_together_runs(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    names = ("Friday Hunts", "Sunday Hunts")
    invites = [invite_text(name=name, host=f"{name[:3].lower()}.example.org") for name in names]
    for killed in (False, True):  # the second time, a killed launcher has left its files behind
        command = [LAUNCHER, "--key-file", "--no-links", "--print-link"]
        started = [
            subprocess.Popen([*command, invite], env=environ_of(home), cwd=home)
            for invite in invites
        ]
        try:
            eventually(partial(one_has_ended, started))
            eventually(lambda: all(name in hosts_of(home) for name in names))
        finally:
            for process in started:
                process.kill()
                process.wait()
        assert (home / "launcher" / "state" / "running.json").exists(), killed


def test_long_and_cut_links_start_no_second_launcher(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    with opened_by_it(tmp_path / "home", opened) as environ:
        [(port, token)] = links(opened, 1)
        session = {"X-Launcher-Session": entered(port, token)[1]["session"]}
        for link, sentence in (
            ("svc://join?code=" + "x" * 50_000, "The invite is longer than 2048 characters."),
            (invite_text()[:60], "This invite is incomplete. Copy the whole line."),
        ):
            command = [LAUNCHER, "--key-file", "--no-links", "--", link]
            subprocess.run(command, env=environ, timeout=60, check=True)
            request = urllib.request.Request(f"http://127.0.0.1:{port}/api/state", headers=session)
            with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 - our own
                assert orjson.loads(reply.read())["refusal"] == sentence
        assert {item[0] for item in links(opened, 3)} == {port}


def one_has_ended(started: Sequence[subprocess.Popen[bytes]]) -> bool:
    """Return whether one of two programs has ended successfully while the other program runs."""
    return {process.poll() for process in started} == {0, None}


def test_unusable_link_is_explained_on_the_page(browser: Browser, tmp_path: Path) -> None:
    words = ("--print-link", "--", invite_text()[:60])
    with launcher(tmp_path, *words) as started:
        context = browser.new_context()
        page = context.new_page()
        page.goto(link_of(started))
        expect(page.get_by_role("alert")).to_have_text(
            "This invite is incomplete. Copy the whole line."
        )
        command = [LAUNCHER, "--key-file", "--print-link", "--", "svc:odd"]
        subprocess.run(command, env=environ_of(tmp_path), timeout=60, check=True)
        expect(page.get_by_role("alert")).to_contain_text("This is not an invite")
        context.close()


def hosts_of(home: Path) -> str:
    """Return the text of the launcher's list of hosts, or "" if there is no list."""
    file = home / "launcher" / "state" / "hosts.json"
    return file.read_text() if file.exists() else ""


XDG_MIME = """#!/bin/sh
if [ "$1" = query ]; then cat "$HOME/chosen" 2>/dev/null; else echo "$2" > "$HOME/chosen"; fi
"""


def test_links_are_registered_at_the_first_start_and_undone_by_remove(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    helper, chosen = home / "bin" / "xdg-mime", home / "chosen"
    helper.write_text(XDG_MIME)
    helper.chmod(0o755)
    desktop_file = home / "launcher" / "applications" / "svc-launcher.desktop"
    ours = "svc-launcher.desktop\n"
    with launching(home, "--no-browser"):
        eventually(lambda: chosen.exists() and chosen.read_text() == ours)
    assert Path(LAUNCHER).name in desktop_file.read_text()
    assert "no longer open the launcher" in said_by(home, "remove")
    assert not desktop_file.exists()
    chosen.unlink()
    with launching(home, "--no-browser"):  # a removed registration stays removed
        eventually(lambda: "Type help" in (home / "said").read_text())
    assert not chosen.exists()
    assert not desktop_file.exists()
    running = home / "launcher" / "state" / "running.json"
    with launching(home, "--no-browser", "--links"):
        eventually(lambda: chosen.exists() and chosen.read_text() == ours)
        eventually(running.exists)
        assert "no longer open the launcher" in said_by(home, "remove")
        eventually(lambda: not running.exists())  # the launcher that ran has ended


@contextmanager
def launching(home: Path, *words: str) -> Iterator[None]:
    """Run a launcher until the block ends; its output is written to the file ``said``."""
    with (home / "said").open("w") as reply:
        command = [LAUNCHER, "--key-file", *words]
        environ = environ_of(home)
        running = subprocess.Popen(
            command, env=environ, cwd=home, stdin=subprocess.PIPE, stdout=reply
        )
        with running:
            try:
                yield
            finally:
                running.terminate()


def said_by(home: Path, word: str) -> str:
    """Run the launcher with one argument and return its output."""
    command, environ = [LAUNCHER, word], environ_of(home)
    ran = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    return ran.stdout
