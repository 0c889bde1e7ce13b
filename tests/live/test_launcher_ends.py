"""In a real browser, the launcher ends after its last page is closed, or starts its new version.

Real processes are needed because only a browser reports that a page is closed.
"""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.live.players_host import change_of, environ_of, launcher, link_of
from tests.live.real_browser import browser
from tests.support.processes import eventually

__all__ = ["browser"]  # a fixture

pytestmark = pytest.mark.live

SOONER = """
import svcserver.launcher.main as main
main.UNUSED_S, main.LOOK_UNUSED_S = 10.0, 0.5
"""


# slow: 30 s: waits longer than the launcher does, which a busy browser must not exceed
def test_launcher_ends_after_its_last_page_is_closed(browser: Browser, tmp_path: Path) -> None:
    change_of(tmp_path).write_text(SOONER)
    running = tmp_path / "launcher" / "state" / "running.json"
    with launcher(tmp_path, "--print-link") as started:
        context = browser.new_context()
        page = context.new_page()
        page.goto(link_of(started))
        expect(page.get_by_label("Your invite")).to_be_visible()
        page.reload()
        page.wait_for_timeout(12_000)  # longer than the launcher waits for a page
        expect(page.get_by_label("Your invite")).to_be_visible()
        assert running.exists()
        page.close()
        eventually(lambda: not running.exists())
        context.close()


CRASH = """
import os
import svcserver.launcher.main as main
main.LauncherProgram.try_start = lambda program: os.abort() if {dies} else program.reactor.stop()
main.main(["--key-file", "--no-links", "--no-browser"])
"""


def test_report_of_a_hard_crash_outlives_the_next_start(tmp_path: Path) -> None:
    report = tmp_path / "launcher" / "state" / "svc-launcher-crash.log"
    reported = []
    for dies in (False, True, False):
        command = [sys.executable, "-c", CRASH.format(dies=dies)]
        ran = subprocess.run(
            command, env=environ_of(tmp_path), stdin=subprocess.DEVNULL, timeout=60, check=False
        )
        assert ran.returncode == (-signal.SIGABRT if dies else 0)
        reported.append(report.exists())
    assert reported == [False, True, True]
    assert "Fatal Python error: Aborted" in report.read_text()
    assert report.stat().st_mode & 0o077 == 0


UPDATED = """
import svcserver.launcher.main as main
from svcserver.launcher.updates import Updates

class Program:
    file_name, failed = "svc-launcher.pyz", ""
    def command(self):
        return ["/bin/sh", "-c", "touch {started}"]
    def newer_command(self):
        return []
    def install(self):
        pass
    confirm = give_way = install

main.own_program = lambda *_, **__: Program()
text = "Version 9.9.9 is installed."
Updates.shown = lambda self: {{"text": text, "ready": True, "can_restart": True, "host": ""}}
"""


def test_page_offers_to_start_the_new_version(browser: Browser, tmp_path: Path) -> None:
    started = tmp_path / "started"
    change_of(tmp_path).write_text(UPDATED.format(started=started))
    with launcher(tmp_path, "--print-link") as running:
        context = browser.new_context()
        page = context.new_page()
        page.goto(link_of(running))
        expect(page.get_by_role("status").first).to_contain_text("Version 9.9.9 is installed.")
        expect(page.get_by_label("Your invite")).to_be_visible()
        page.get_by_role("button", name="Restart the launcher now").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("The launcher starts again")
        eventually(started.exists)
        context.close()
