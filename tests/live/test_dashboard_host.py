"""The dashboard's pages about alerts and backups, in a real browser, with a whole running host.

Real processes are needed because the stack sends the alerts and makes the backups.
"""

import os
import re
import signal
import time
from pathlib import Path

import pytest
from attrs import evolve
from playwright.sync_api import Browser, Locator, expect

from svcserver.kernel import backups
from svcserver.kernel.backups import Backup, Backups
from svcserver.kernel.settings import parse_env_file
from svcserver.stack import rolling
from tests.live.dashboard_page import Host, Visit, visit
from tests.live.real_browser import browser
from tests.live.test_alerts import receiver
from tests.live.test_dashboard_machine import Deliveries, alerts_of, city_stack
from tests.support.processes import eventually
from tests.support.proves import proves

__all__ = ["browser", "city_stack"]  # fixtures

pytestmark = pytest.mark.live


def row(tab: Visit, table: str, text: str) -> Locator:
    return tab.page.get_by_role("table", name=table).get_by_role("row").filter(has_text=text)


def press(place: Locator, name: str) -> None:
    place.get_by_role("button", name=name, exact=True).click()


# slow: a stack; each dialog is checked with axe in each look
@proves(
    "POST DashboardAlertChannel", "DELETE DashboardAlertChannel/:name", "POST DashboardAlertTest"
)
def test_a_channel_is_added_tested_changed_and_removed(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    name = "evening-alerts"
    path = here.folder / f"alert-{name}.env"
    with receiver() as (url, deliveries), visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Alerts")
        tab.press("Add a channel")
        tab.picture("alert-form")
        tab.answer("Continue", Send="json")
        tab.page.get_by_label("Name of the channel").fill(name)
        tab.page.get_by_label("Webhook URL").fill(url)
        tab.page.get_by_label("Attack", exact=True).uncheck()
        tab.picture("alert-fields")
        tab.confirm("Add")
        expect(tab.fault()).to_contain_text("https://, unless it is in your own network")
        tab.page.get_by_label("The receiver is").select_option("1")
        tab.confirm("Add")
        tab.expect_confirmation(f"Channel {name} added")
        secret = tab.page.get_by_role("dialog").locator(".join").inner_text()
        tab.picture("alert-secret")
        tab.confirm("Close")
        assert parse_env_file(path.read_text())["SIGNING_SECRET"] == secret
        channel = row(tab, "Channels", name)
        expect(channel).to_contain_text("none yet")
        press(channel, "Test")
        tab.expect_confirmation(f"Test sent to {name}")
        expect(channel).to_contain_text("test sent")
        assert eventually(lambda: alerts_of(deliveries, "test"))
        expect(channel).not_to_contain_text("test sent")
        expect(channel).to_contain_text("delivered")
        history = tab.page.get_by_role("list", name="Delivery history").get_by_role("listitem")
        expect(history.filter(has_text=name)).to_contain_text("the dashboard's test")
        tab.picture("alerts")
        press(channel, "Change")
        assert secret not in tab.page.content() and url not in tab.page.content()
        tab.answer("Change", Quiet="23:00-07:00")
        tab.expect_confirmation(f"Channel {name} changed")
        assert parse_env_file(path.read_text())["QUIET"] == "23:00-07:00"
        assert parse_env_file(path.read_text())["URL"] == url
        press(channel, "Change")
        tab.page.get_by_label("Make a new secret").check()
        tab.picture("alert-new-secret")
        tab.confirm("Change")
        tab.expect_confirmation(f"Channel {name} changed")
        renewed = tab.page.get_by_role("dialog").locator(".join").inner_text()
        tab.confirm("Close")
        assert secret != renewed == parse_env_file(path.read_text())["SIGNING_SECRET"]
        path.write_text("FORM=pigeon\n")
        expect(channel).to_contain_text("gets no alerts")
        expect(channel).to_contain_text("FORM must be one of")
        tab.picture("alert-broken")
        press(channel, "Remove")
        tab.answer("Remove", Reason="the end")
        tab.expect_confirmation(f"Channel {name} removed")
        expect(channel).to_have_count(0)
        assert not path.exists()


def open_backups(tab: Visit, here: Host) -> None:
    # the drill is tested in test_backup.py
    (here.folder / "stack.env").write_text("BACKUP_DRILL=0\n")
    tab.sign_in(here.key)
    tab.go("Backups")
    tab.drawn()


# slow: a stack, and a backup of it
@proves("POST DashboardBackup", "POST DashboardBackupDownload", "POST DashboardBackupSchedule")
def test_a_backup_is_made_downloaded_and_scheduled(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    with visit(browser, here) as tab:
        open_backups(tab, here)
        expect(tab.page.get_by_text("There is no backup yet.")).to_be_visible()
        tab.picture("backups-empty")
        tab.press("Back up now")
        tab.answer("Back up", Reason="before the update")
        tab.expect_confirmation("The backup starts")
        stored = row(tab, "Stored backups", "not tested")
        expect(stored).to_contain_text("not encrypted")
        state = backups.read(here.folder)
        assert state is not None and state.newest is not None
        file = Path(state.newest.file)
        press(stored, "How to restore")
        command = tab.page.get_by_role("dialog").locator(".join")
        expect(command).to_contain_text(f"svcctl backup restore {file} --stop --config")
        tab.confirm("Close")
        press(stored, "Download")
        tab.answer("Download", Key="UUK_wrong")
        expect(tab.fault()).not_to_be_empty()
        with tab.page.expect_download() as started:
            tab.answer("Download", Key=here.key, Reason="off-site copy")
        assert started.value.suggested_filename == file.name
        assert started.value.path().read_bytes() == file.read_bytes()
        tab.expect_confirmation("Backup downloaded")
        tab.press("Change")
        tab.answer("Change", Time="late")
        expect(tab.fault()).to_contain_text("time of day")
        tab.answer("Change", Time="03:15", Days="9")
        tab.expect_confirmation("Schedule changed")
        expect(tab.fact("Made")).to_contain_text("every night at 03:15")
        expect(tab.fact("Kept")).to_contain_text("9 days, 4 weeks, 12 months (stack.env)")
        tab.press("Change")
        tab.answer("Change", Days="8")
        expect(tab.fault()).to_contain_text("the next backup deletes older ones")
        tab.picture("backup-schedule")
        tab.answer("Change", Key=here.key)
        tab.expect_confirmation("Schedule changed")
        expect(tab.fact("Kept")).to_contain_text("8 days")
        lines = parse_env_file((here.folder / "stack.env").read_text())
        assert (lines["BACKUP_AT"], lines["BACKUP_DRILL"]) == ("03:15", "0")


@proves("GET DashboardBackups")
def test_a_request_that_nobody_took_survives_a_reload(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    request = here.folder / backups.REQUEST_FILE
    state = backups.read(here.folder) or Backups()
    backups.write(here.folder, evolve(state, tried=None))
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Backups")
        stack = rolling.read_state(here.folder)
        assert stack is not None
        os.kill(stack.pid, signal.SIGSTOP)  # a suspended process reads nothing
        try:
            tab.press("Back up now")
            tab.answer("Back up")
            tab.expect_confirmation("The backup starts")
            expect(tab.page.get_by_text("A backup starts in a moment.")).to_be_visible()
            old = time.time() - backups.TAKEN_S - 1
            os.utime(request, (old, old))
            late = tab.page.get_by_text("svc-stack did not make the backup that was requested")
            expect(late).to_be_visible()
            tab.page.reload()
            expect(late).to_be_visible()
            expect(tab.page.get_by_role("button", name="Back up now")).to_be_visible()
            tab.picture("backup-not-taken")
            request.unlink()
            expect(late).to_have_count(0)
        finally:
            os.kill(stack.pid, signal.SIGCONT)


# slow: a stack
@proves("GET DashboardBackups")
def test_backups_and_progress_fit_in_each_look(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    (here.folder / "stack.env").unlink(missing_ok=True)
    before = backups.read(here.folder)
    now = time.time()
    stored = [
        Backup(f"{here.folder}/svc-backup-1.tar.gz.age", now, 5 << 20, "ab", True, proven=now),
        Backup(f"{here.folder}/svc-backup-2.tar.gz", now - 86_400, 4 << 20, "ab"),
        Backup(f"{here.folder}/svc-backup-3.tar.gz", now - 2e5, 9, "ab", fault="it is damaged"),
    ]
    try:
        with (
            visit(browser, here) as tab,
            backups.running(here.folder),
        ):
            backups.write(here.folder, Backups(stored, now, begun=now, step="test"))
            tab.sign_in(here.key)
            tab.go("Backups")
            steps = tab.page.get_by_role("list", name="Progress").get_by_role("listitem")
            expect(steps).to_have_count(3)
            expect(steps.nth(1)).to_have_attribute("aria-current", "step")
            expect(tab.page.get_by_text("svc-backup-3.tar.gz: it is damaged")).to_be_visible()
            expect(tab.page.get_by_role("button", name="Back up now")).to_have_count(0)
            tab.picture("backups")
            backups.write(here.folder, Backups(stored[:2], now))
            expect(steps).to_have_count(0)
            tab.press("Back up now")
            tab.picture("backup-now")
            tab.confirm("Cancel")
            press(row(tab, "Stored backups", "not tested"), "Download")
            tab.picture("backup-download")
            tab.confirm("Cancel")
            press(row(tab, "Stored backups", "not tested"), "How to restore")
            tab.picture("backup-restore")
            tab.confirm("Close")
    finally:
        backups.write(here.folder, before or Backups())


def readers(file: Path) -> list[str]:
    """Return the processes that have a file open."""
    return [
        link.parts[2]
        for link in Path("/proc").glob("[0-9]*/fd/*")
        if link.is_symlink() and target(link) == str(file)
    ]


def target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:  # closed meanwhile
        return ""


@proves("POST DashboardBackupDownload")
def test_a_download_shows_progress_and_ends_when_cancelled(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    before, file = backups.read(here.folder), here.folder / "svc-backup-big.tar.gz"
    with file.open("wb") as big:
        big.truncate(300 << 20)
    backups.write(here.folder, Backups([Backup(str(file), time.time(), 300 << 20, "ab")]))
    try:
        with visit(browser, here) as tab:
            tab.sign_in(here.key)
            tab.go("Backups")
            limits = {"offline": False, "latency": 0, "uploadThroughput": -1}
            network = tab.page.context.new_cdp_session(tab.page)
            network.send("Network.enable")
            network.send(
                "Network.emulateNetworkConditions", {**limits, "downloadThroughput": 3 << 20}
            )
            press(row(tab, "Stored backups", "300.0 MB"), "Download")
            tab.answer("Download", Key=here.key)
            expect(tab.page.get_by_text(re.compile("^[1-9].* MB of 300.0 MB$"))).to_be_visible()
            tab.picture("backup-downloading")
            assert readers(file)
            tab.confirm("Cancel the download")
            tab.expect_confirmation("Download cancelled")
            assert eventually(lambda: not readers(file))
    finally:
        file.unlink()
        backups.write(here.folder, before or Backups())


# slow: a stack, whose state is written every fifteen seconds
@proves("GET DashboardSettings")
def test_a_setting_changed_in_a_file_says_which_restart(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    file = here.folder / "deploy.env"
    before = file.read_text()
    file.write_text(f"{before}LOG_LEVEL=debug\n")
    try:
        with visit(browser, here) as tab:
            tab.sign_in(here.key)
            tab.go("Settings")
            section = tab.page.locator(".card").filter(has=tab.page.get_by_text(str(file)))
            level = section.locator("tr").filter(has=tab.page.get_by_text("LOG_LEVEL", exact=True))
            wanted = "restart needed: run svcctl restart --rolling"
            expect(level).to_contain_text(wanted)
            expect(section.get_by_text("restart needed")).to_have_count(1)
            tab.page.get_by_label("Search settings").fill("LOG_LEVEL")
            tab.picture("settings-restart")
            file.write_text(before)
            expect(level).not_to_contain_text("restart needed")
    finally:
        file.write_text(before)
