"""The faults that a player may meet; the launcher's page shows a message for each.

Real processes are needed because the tests use a browser, cut connections, fill a disk and restart
hosts.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from svcserver.launcher import words
from tests.ctl.hosts import change, run, value
from tests.live.players_host import (
    MB,
    SYSTEM,
    change_of,
    host,
    invite,
    make_manifest,
    players_host,
    running,
    shown,
    system,
)
from tests.live.players_page import LOOKED_MS, Visit, visit
from tests.live.real_browser import browser
from tests.support.forwarder import Forwarder
from tests.support.processes import Service
from tests.support.requirements import skip

__all__ = ["browser", "host", "system"]  # fixtures

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("system")]

SLOWLY = 0.1  # MB per second: no download ends before the test allows it


# slow: 50 s: six megabytes on a slow line, cut and mended
def test_a_download_on_a_cut_connection_resumes_by_itself(
    browser: Browser, host: Path, tmp_path: Path
) -> None:
    text = invite(host)
    with Forwarder(int(value(host, "gateway", "GATEWAY_PORT"))) as line:
        through = re.sub(r"port=\d+", f"port={line.port}", text)
        with visit(browser, tmp_path, "light", through) as tab:
            tab.register("Cut_1")
            expect(tab.page.get_by_role("button", name=re.compile("^Download"))).to_be_visible()
            line.rest_s = 0.5  # with this pause, six megabytes take most of a minute
            tab.press(re.compile("^Download"))
            expect(tab.page.locator(".bar p")).to_contain_text("a second")
            line.cut()
            tab.reads("The connection broke. The download continues in")
            tab.picture("8-cut")
            line.rest_s = 0.0
            line.mend()
            expect(tab.page.get_by_role("button", name="Play")).to_be_visible(timeout=LOOKED_MS)
            whole = (host / "game" / "data" / "big.pak").read_bytes()
            assert (tab.game / "data" / "big.pak").read_bytes() == whole


SAYS = """
import os, pathlib, shutil

real, folder, room = shutil.disk_usage, {folder!r}, pathlib.Path({room!r})

def usage(path):
    found = real(path)
    told = os.fspath(path).startswith(folder)
    return found._replace(free=int(room.read_text())) if told else found

shutil.disk_usage = usage
"""


@contextmanager
def small_disk(folder: Path, home: Path) -> Iterator[Callable[[], object]]:
    """Provide a disk with too little space for a download; yield a function that enlarges it.

    On machines that do not allow mounts, the launcher of ``home`` only gets a false disk size.
    """
    folder.mkdir()
    made = ["mount", "-t", "tmpfs", "-o", "size=66m", "none", str(folder)]
    if os.geteuid() == 0 and subprocess.run(made, check=False, capture_output=True).returncode == 0:
        more = ["mount", "-o", "remount,size=200m", str(folder)]
        try:
            yield lambda: subprocess.run(more, check=True)
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        return
    if SYSTEM == ["windows"]:
        raise skip("mount", "a launcher under Wine needs a real small disk")
    room, change = home / "room", change_of(home)
    home.mkdir()
    change.write_text(SAYS.format(folder=str(folder), room=str(room)))
    room.write_text(str(66 * MB))
    yield lambda: room.write_text(str(200 * MB))


def test_a_full_disk_says_how_much_is_missing(browser: Browser, host: Path, tmp_path: Path) -> None:
    disk, home = tmp_path / "disk", tmp_path / "home"
    with (
        small_disk(disk, home) as make_room,
        visit(browser, home, "light", invite(host)) as tab,
    ):
        tab.register("Full_1")
        expect(tab.page.get_by_role("button", name=re.compile("^Download"))).to_be_visible()
        tab.set_folder(disk / "game")
        tab.reads(f"Into {shown(disk / 'game')}")
        tab.press(re.compile("^Download"))
        tab.reads("The disk is full. ")
        tab.reads(f"more for {shown(disk / 'game')}, or choose another folder")
        tab.picture("9-full")
        make_room()
        tab.download()


# slow: 60 s: the launcher looks at its host every fifteen seconds
def test_launcher_shows_an_announcement_a_new_key_and_a_ban(
    browser: Browser, host: Path, tmp_path: Path
) -> None:
    with visit(browser, tmp_path, "light", invite(host)) as tab:
        tab.register("Banned_1")
        tab.download()
        ran = run("announce", "Potions are on me tonight", "--config", host)
        assert ran.returncode == 0, ran.stderr
        expect(tab.page.locator(".announced")).to_have_text(
            re.compile("Potions are on me tonight"), timeout=LOOKED_MS
        )
        tab.page.get_by_text("Settings", exact=True).click()
        tab.press("Renew my key")
        tab.reads(words.KEY_RENEWED)
        ran = run("ban", "Banned_1", "--reason", "for the test", "--config", host)
        assert ran.returncode == 0, ran.stderr
        expect(tab.page.locator("main")).to_contain_text(words.BANNED, timeout=LOOKED_MS)
        tab.press("Play")
        tab.reads(words.BANNED)
        tab.picture("10-banned")


# slow: 100 s: a stack started twice
def test_launcher_shows_a_full_host_a_restart_and_a_new_version(
    browser: Browser, tmp_path: Path
) -> None:
    """During the restart the gateway answers before the metagame runs.

    The host is full because it allows one download at a time and two files are in progress. Both
    files are larger than the socket buffers, so neither download ends early.
    """
    host = players_host(tmp_path / "host", "Sunday Hunts", big=16 << 20)
    (host / "game" / "data" / "more.pak").write_bytes(os.urandom(16 << 20))
    make_manifest(host, "1.4.4")
    change(host, "content", "CONTENT_MAX_STREAMS_TOTAL", "1")
    with visit(browser, tmp_path / "home") as tab:
        with running(host):
            tab.join(invite(host))
            tab.register("Patient_1")
            expect(tab.page.get_by_role("button", name=re.compile("^Download"))).to_be_visible()
            tab.set_limit(SLOWLY)
            tab.press(re.compile("^Download"))
            tab.reads(words.FULL)
            tab.set_limit(0)
            expect(tab.page.get_by_role("button", name="Play")).to_be_visible(timeout=LOOKED_MS)
            tab.set_command()
        gateway = Service("svc-gateway", host, {}, 0, ["--env-file", str(host / "gateway.env")])
        gateway.start()
        try:
            tab.press("Play")
            tab.reads(words.RESTARTING)
            tab.picture("11-restarting")
        finally:
            gateway.stop()
        _has_another_version(host, tab)


def _has_another_version(host: Path, tab: Visit) -> None:
    """Change one file of the game; the launcher must report this and download only that file."""
    part = host / "game" / "data" / "part 3.bin"
    part.write_bytes(os.urandom(30_000))
    make_manifest(host, "1.4.5")
    with running(host):
        expect(tab.page.locator("main")).not_to_contain_text(words.RESTARTING, timeout=LOOKED_MS)
        tab.press("Play")
        tab.reads(words.VERSION)
        tab.press("Repair")
        tab.press(re.compile(r"^Repair \(30 KB\)"))
        expect(tab.page.get_by_role("button", name="Play")).to_be_visible()
        assert (tab.game / "data" / "part 3.bin").read_bytes() == part.read_bytes()
        tab.press("Play")
        tab.reads("You are playing as Patient_1")


# slow: 80 s: a second stack, started twice
def test_launcher_shows_when_one_of_two_hosts_is_unreachable(
    browser: Browser, host: Path, tmp_path: Path
) -> None:
    second = players_host(tmp_path / "second", "Sunday Hunts")
    with visit(browser, tmp_path / "home") as tab:
        with running(second):
            tab.join(invite(second))
            tab.register("Both_1")
            tab.download()
            tab.press("+ Another host")
            tab.join(invite(host))
            tab.register("Both_1")
            expect(tab.page.get_by_role("button", name=re.compile("^Download"))).to_be_visible()
            tabs = tab.page.get_by_role("navigation").get_by_role("button")
            expect(tabs).to_have_count(3)
        tab.press("Sunday Hunts")
        expect(tab.page.locator("main")).to_contain_text(words.UNREACHABLE, timeout=LOOKED_MS)
        tab.press("Play")
        tab.reads(words.UNREACHABLE)
        tab.picture("7-unreachable")
        with running(second):
            expect(tab.page.locator("main")).to_contain_text("online", timeout=LOOKED_MS)
            expect(tab.page.locator("main")).not_to_contain_text(words.UNREACHABLE)
