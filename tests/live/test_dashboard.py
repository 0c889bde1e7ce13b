"""The dashboard's main tasks in a real browser against a real metagame.

If ``SVC_PICTURES`` names a folder, the tests save screenshots of every page there: light, dark, and
in the size of a phone.

Real processes are needed because the browser is a process that keeps sending requests while a test
waits.
"""

import json
import math
import re
import time
from datetime import UTC, datetime

import pytest
from attrs import evolve
from playwright.sync_api import Browser, Route, expect

from svcserver.ctl.as_owner import Owner
from svcserver.kernel import backups, host_history, host_state
from svcserver.kernel.alert_settings import AlertKind
from svcserver.kernel.backups import Backup, Backups
from svcserver.kernel.host_history import KEPT_S, STEP_S, HostHistory
from svcserver.kernel.host_state import HostFault, HostState, Incident, MachineSample, ServiceState
from svcserver.kernel.machine import SIGNING_KEY
from svcserver.kernel.settings import parse_env_file
from tests.live.dashboard_page import (
    PAGES,
    SIZES,
    WIDER,
    Host,
    come_to_chat,
    comes_online,
    here,
    log_in_again,
    open_account,
    visit,
    weeks,
)
from tests.live.real_browser import browser
from tests.support.processes import bearer
from tests.support.proves import proves

__all__ = ["browser", "here"]  # fixtures

pytestmark = pytest.mark.live

DRAWN = """(canvas) => {
  const { width, height } = canvas;
  const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
  const coloured = (x, y) => {
    const [red, green, blue, alpha] = data.subarray(4 * (y * width + x), 4 * (y * width + x) + 4);
    return alpha > 99 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60;
  };
  const columns = [...Array(width).keys()];
  const rows = [...Array(height).keys()];
  return columns.filter((x) => rows.some((y) => coloured(x, y))).length / width;
}"""
GROUND = "() => getComputedStyle(document.body).backgroundColor"
GROUNDS = {"dark": "rgb(17, 20, 23)", "light": "rgb(246, 246, 243)"}
C_LOCALE = (
    """Object.defineProperty(Navigator.prototype, 'language', { get: () => 'en-US@posix' })"""
)
COVERED = """() => {
  const box = document.querySelector('#says p').getBoundingClientRect();
  const shown = document.querySelector('dialog') ?? document.querySelector('#content');
  return [...shown.querySelectorAll('button')].filter((button) => {
    const { left, right, top, bottom } = button.getBoundingClientRect();
    return left < box.right && right > box.left && top < box.bottom && bottom > box.top;
  }).map((button) => button.textContent);
}"""


def test_only_an_admins_key_opens_the_page_and_nothing_keeps_it(
    browser: Browser, here: Host
) -> None:
    with visit(browser, here) as tab:
        page = tab.page
        for key, word in (
            ("UUK_" + "0" * 48, "does not know"),
            (here.players[0]["key"], "not an owner"),
        ):
            page.get_by_label("Account key").fill(key)
            tab.press("Sign in")
            expect(page.get_by_role("alert")).to_contain_text(word)
        tab.sign_in(here.key)
        stored = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
        [words, session, readable] = json.loads(page.evaluate(stored))
        assert (list(words), session, readable) == (["svc-dashboard-word"], {}, "")
        assert page.get_by_label("Account key").count() == 0 or not page.evaluate(
            "document.getElementById('key').value"
        )
        [stored] = page.context.cookies()
        assert (stored["httpOnly"], stored["sameSite"], stored["path"]) == (True, "Strict", "/svc")
        assert here.key not in stored["value"]
        page.reload()
        expect(page.locator("#server-name")).to_have_text("Evening Hunters")
        tab.press("Sign out")
        expect(page.get_by_label("Account key")).to_be_visible()
        page.reload()
        expect(page.get_by_label("Account key")).to_be_visible()
        # a cookie that was copied before the sign-out is useless
        page.context.add_cookies([stored])
        page.reload()
        expect(page.get_by_label("Account key")).to_be_visible()


def test_a_link_of_svcctl_signs_in_once(browser: Browser, here: Host) -> None:
    variables = parse_env_file((here.folder / "metagame.env").read_text())
    owner = Owner(f"http://127.0.0.1:{here.service.port}", variables[SIGNING_KEY])
    link = f"/sign-in/{owner.post('DashboardSignInLink', {})['Link']}"
    with visit(browser, here) as tab:
        page = tab.page
        assert page.get_by_label("Account key").get_attribute("autocomplete") == "current-password"
        expect(page.get_by_text("owner.key")).to_be_visible()
        page.goto(f"{tab.address}/svc/dashboard#{link}")
        expect(page.locator("#server-name")).to_have_text("Evening Hunters")
        assert link not in page.url
        tab.press("Sign out")
        expect(page.get_by_label("Account key")).to_be_visible()
        page.goto(f"{tab.address}/svc/dashboard#{link}")
        expect(page.get_by_role("alert").first).to_contain_text("was used or has expired")
        tab.picture("used-link")


def test_overview_shows_locations_and_links_to_registration(browser: Browser, here: Host) -> None:
    comes_online(here, 0)
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        row = tab.page.get_by_role("row").filter(has_text="Ann_1")
        expect(row).to_contain_text("In the city")
        expect(tab.page.get_by_role("button", name="registration")).to_have_count(0)
        tab.page.get_by_role("link", name="Change who may register").click()
        expect(tab.page.get_by_role("heading", level=1)).to_have_text("Settings")
        row = tab.page.locator("tbody tr")
        expect(row).to_have_count(1)
        row.get_by_role("button", name="Change").click()
        tab.answer("Change", Value="INVITECODE")
        tab.expect_confirmation("REGISTRATION_MODE changed")
        reply = here.admin("GET", "RegistrationStatus")
        assert reply == {"RegistrationMode": "INVITECODE"}
        tab.go("Overview")
        expect(tab.page.get_by_label("Now")).to_contain_text("By code")


def test_players_online_are_searched_by_name_and_place(browser: Browser, here: Host) -> None:
    for number in range(6):
        comes_online(here, number, "cora_jamima" if number == 5 else "city_01_persistent")
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        search = tab.page.get_by_label("Search players")
        rows = tab.page.get_by_role("table", name="Players online").locator("tbody tr")
        expect(rows).to_have_count(6)
        search.press_sequentially("DRAGON")
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("Dragonfly_77")
        search.fill("hunting")
        expect(rows).to_contain_text("Falk")
        comes_online(here, 0, "cora_jamima")  # other players move while the search has the focus
        expect(rows).to_have_count(2)
        expect(search).to_be_focused()
        tab.picture("overview-search")
        search.fill("nobody")
        expect(tab.page.get_by_text("No player or place matches.")).to_be_visible()
        # as if the server status were missing
        search.evaluate("node => node.closest('.columns').remove()")
        expect(search).to_have_value("nobody")  # the next update draws a new search field


def test_an_invite_is_made_shown_and_revoked(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Invites")
        tab.press("New invite")
        tab.page.get_by_role("spinbutton", name="Uses").fill("3")
        tab.confirm("Create")
        box = tab.page.get_by_role("dialog")
        expect(box.get_by_role("img", name="QR code of the join string")).to_be_visible()
        expect(box).to_contain_text("svc://join?v=2&mode=public&host=203.0.113.10")
        expect(box).to_contain_text("Start it, and paste the line below, which is for you alone.")
        words = box.get_by_label("Check words").inner_text().split()
        assert len(words) == 8
        tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        tab.press("Copy everything")
        tab.expect_confirmation("Invite copied")
        copied = tab.page.evaluate("navigator.clipboard.readText()")
        assert "svc://join?" in copied and " ".join(words) in copied
        tab.confirm("Close")
        codes = {
            entry["inviteCode"]: entry for entry in here.admin("GET", "InviteCodes")["InviteCodes"]
        }
        [made] = [code for code, entry in codes.items() if entry["usesRemaining"] == 3]
        tab.page.get_by_role("row").filter(has_text=made).get_by_role(
            "button", name="Revoke"
        ).click()
        tab.confirm("Revoke")
        tab.expect_confirmation(f"Invite {made} revoked")
        expect(tab.page.get_by_role("row").filter(has_text=made)).to_have_count(0)
        left = here.admin("GET", "InviteCodes")["InviteCodes"]
        assert made not in [entry["inviteCode"] for entry in left]


def test_saves_are_compared_and_rolled_back(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        open_account(tab, "Ann_1")
        tab.press("Changes")
        change = tab.page.get_by_role("dialog").get_by_role("row").filter(has_text="level")
        expect(change).to_contain_text("\u2212 20")
        expect(change).to_contain_text("+ 21")
        tab.confirm("Close")
        row = tab.page.get_by_role("row").filter(has_text="the player").nth(2)
        version = int(row.get_by_role("cell").first.inner_text().split()[0])
        comes_online(here, 0)
        row.get_by_role("button", name="Roll back").click()
        choice = tab.page.get_by_role("combobox", name="Ann_1 is online now (in the city)")
        expect(choice).to_have_value("yes")
        tab.confirm("Roll back")
        tab.expect_confirmation(
            f"was rolled back to version {version}. A copy of that version is now the newest"
        )
        tab.expect_confirmation("the player is logged out")
        assert here.service.ask("GET", "/character", None, bearer(here.players[0]))[0] == 401
        log_in_again(here, 0)
        [entry] = here.call("GET", "/character", **bearer(here.players[0]))
        assert json.loads(entry["data"])["level"] == 10 + version


@proves("GET DashboardLoadoutDiff")
def test_loadouts_are_compared_and_rolled_back(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        open_account(tab, "Ann_1")
        versions = tab.page.get_by_role("table", name="Loadouts of Ann_1")
        versions.get_by_role("button", name="Changes").first.click()
        change = tab.page.get_by_role("dialog").get_by_role("row").filter(has_text="0.flask")
        expect(change).to_contain_text("\u2212 FL_HEALING_DEFAULT")
        expect(change).to_contain_text("+ FL_SPEED")
        tab.confirm("Close")
        comes_online(here, 0)
        versions.get_by_role("button", name="Roll back").first.click()
        tab.page.get_by_role("combobox", name="Ann_1 is online now").select_option("")
        tab.confirm("Roll back")
        tab.expect_confirmation("were rolled back to version 2")
        ann = here.players[0]
        [entry] = here.call("GET", "/character", **bearer(ann))
        stored = here.call("GET", f"/loadout/{ann['id']}/{entry['id']}/all", **bearer(ann))
        assert stored["payload"]["loadouts"][0]["flask"] == "FL_HEALING_DEFAULT"


def test_an_account_is_renamed_and_granted(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        open_account(tab, "Falk")
        tab.press("Rename")
        tab.page.get_by_role("textbox", name="New name").fill("x")
        tab.confirm("Rename")
        expect(tab.fault()).not_to_be_empty()
        tab.page.get_by_role("textbox", name="New name").fill("Falke")
        tab.page.get_by_role("textbox", name="Reason").fill("asked for it")
        tab.confirm("Rename")
        tab.expect_confirmation("Falk is now Falke")
        expect(tab.page.get_by_role("heading", level=1)).to_have_text("Falke")
        tab.press("Grant")
        tab.page.get_by_role("combobox", name="Entitlement").select_option("")
        tab.page.get_by_role("textbox", name="Name of another").fill("gift_of_autumn")
        tab.page.get_by_role("spinbutton", name="Hours").fill("12")
        tab.confirm("Grant")
        row = tab.page.get_by_role("row").filter(has_text="gift_of_autumn")
        expect(row).to_contain_text("12 hours")
        row.get_by_role("button", name="Revoke").click()
        tab.confirm("Revoke")
        expect(row).to_have_count(0)
        tab.press("Grant")
        names = tab.page.get_by_role("combobox", name="Entitlement")
        expect(names.locator("option:text-is('gift_of_autumn')")).to_have_count(1)
        tab.answer("Grant", Entitlement="gift_of_autumn", Hours="0")
        tab.expect_confirmation("Falke now has gift_of_autumn")
        expect(row).to_contain_text("for ever")
        tab.press("Set progress")
        tab.page.get_by_role("combobox", name="How").select_option("grandfather")
        tab.confirm("Overwrite")
        tab.expect_confirmation("set to complete")
    [renamed] = [
        entry
        for entry in here.admin("GET", "DashboardAudit")["rows"]
        if entry["action"] == "rename"
    ]
    assert renamed["reason"] == "asked for it"


@proves("GET DashboardSanctions", "GET DashboardAudit", "POST DashboardAnnouncement")
def test_a_player_is_muted_and_unmuted_and_both_are_audited(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        open_account(tab, "Eve")
        tab.press("Mute")
        lasts = tab.page.get_by_role("textbox", name="Duration")
        lasts.fill("a while")
        tab.page.get_by_role("textbox", name="Reason").fill("spam")
        tab.confirm("Mute")  # the dialog keeps the typed text and shows the error
        expect(tab.fault()).to_contain_text("'a while' is not a duration")
        tab.look_over("a mute that is refused", "dialog")
        lasts.fill("2h")
        tab.confirm("Mute")
        tab.expect_confirmation("Eve is muted")
        expect(tab.page.get_by_role("dialog")).to_have_count(0)
        tab.go("Moderation")
        row = tab.page.get_by_role("row").filter(has_text="Eve")
        expect(row).to_contain_text("spam")
        row.get_by_role("button", name="Unmute").click()
        tab.confirm("Unmute")
        tab.expect_confirmation("Eve may chat again")
        expect(row).to_have_count(0)
        tab.press("Announce")
        tab.page.get_by_role("textbox", name="Text", exact=True).fill("Hunt night")
        tab.confirm("Announce")
        tab.expect_confirmation("Announced: Hunt night")
        assert here.call("GET", "/svc-status")["en"] == "Hunt night"
        tab.press("End it")
        tab.confirm("End it")
        tab.expect_confirmation("The announcement has ended")
        tab.press("Announce")
        tab.answer("Announce", Text="Back soon", **{"Time until the restart": "10m"})
        tab.expect_confirmation("Announced: Back soon")
        expect(tab.fact("Restart")).to_be_visible()
        assert re.search(r"Back soon .*\d+ min", here.call("GET", "/svc-status")["en"])
        tab.press("End it")
        tab.confirm("End it")
        expect(tab.page.get_by_text("There is no announcement.")).to_be_visible()
        tab.go("Audit")
        table = tab.page.get_by_role("table", name="Audit log")
        expect(table.get_by_role("row").filter(has_text="Eve")).to_have_count(2)
        tab.page.get_by_label("Filter by target").fill("eve")
        tab.page.get_by_role("button", name="Show", exact=True).click()
        expect(table.locator("tbody").get_by_role("row")).to_have_count(2)
        table.get_by_role("button", name="Details").last.click()
        expect(tab.page.get_by_role("dialog")).to_contain_text("spam")
        tab.confirm("Close")


def test_chat_and_log_are_shown_and_a_guild_is_disbanded(browser: Browser, here: Host) -> None:
    come_to_chat(here)
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Chat")
        room = tab.page.get_by_role("listitem").filter(has_text="General")
        expect(room).to_contain_text("4 players")
        expect(room).to_contain_text("Ann_1, Bertram")
        tab.go("Log")  # the log of a metagame without a stack, as with one systemd unit per service
        expect(tab.page.get_by_text("The last lines of the metagame.")).to_be_visible()
        expect(tab.page.get_by_text("journalctl -u 'svc-*'")).to_be_visible()
        tab.page.get_by_label("Filter by text").fill("DashboardSession")
        expect(tab.page.get_by_role("log")).to_contain_text("POST /svc/api/DashboardSession gs=0")
        tab.page.get_by_label("Filter by text").fill("UUK_")
        expect(tab.page.get_by_role("log")).to_contain_text("No lines match")
        tab.go("Guilds")
        row = tab.page.get_by_role("row").filter(has_text="RedAxes")
        row.get_by_role("button", name="Disband").click()
        tab.confirm("Cancel")
        expect(row).to_have_count(1)
        row.get_by_role("button", name="Disband").click()
        tab.confirm("Disband")
        tab.expect_confirmation("RedAxes disbanded")
        expect(row).to_have_count(0)


def test_health_is_drawn_as_it_is_measured(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Health")
        expect(tab.page.locator("figure")).to_have_count(6)
        names = ["Requests", "Latency p95", "Error rate", "Event-loop lag p95"]
        expect(tab.page.locator(".tile dt")).to_have_text(names)
        memory = tab.page.get_by_role("img", name="Memory")
        expect(memory).to_be_visible()
        expect(memory).to_have_attribute("aria-label", re.compile(r"\d MB$"))


def test_a_graph_is_enlarged_and_read_by_keyboard(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        page = tab.page
        page.route("**/svc/api/DashboardEvents?page=health", an_hour)
        tab.sign_in(here.key)
        tab.go("Health")
        enlarge = page.get_by_role("button", name="Enlarge Latency")
        expect(page.get_by_role("img", name="Latency: p50 1 ms")).to_be_visible()
        enlarge.focus()
        page.keyboard.press("Enter")
        graph = page.get_by_role("dialog", name="Latency over time").get_by_role("slider")
        expect(graph).to_have_attribute("aria-valuetext", "p50 1 ms, p95 25 ms")
        graph.focus()
        for key, at, p95 in (
            ("End", 118, 25),
            ("ArrowLeft", 117, 10),
            ("Home", 0, 10),
            ("ArrowLeft", 0, 10),
            ("ArrowRight", 1, 10),
        ):
            page.keyboard.press(key)
            expect(graph).to_have_attribute("aria-valuenow", str(at))
            expect(graph).to_have_attribute(
                "aria-valuetext", re.compile(rf"^\d\d:\d\d:\d\d, p50 1 ms, p95 {p95} ms$")
            )
        tab.picture("graph")
        page.keyboard.press("Escape")
        expect(enlarge).to_be_focused()
        enlarge.click()
        tab.confirm("Close")


def test_health_is_drawn_in_a_browser_of_the_c_locale(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        tab.page.add_init_script(C_LOCALE)
        tab.page.reload()
        tab.sign_in(here.key)
        tab.go("Health")
        expect(tab.page.locator("figure canvas")).to_have_count(6)


@proves("GET DashboardFigures")
def test_weeks_of_figures_are_drawn_with_their_units(browser: Browser, here: Host) -> None:
    weeks(here)
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Health")
        for span, points in (("1 hour", "minute"), ("1 day", "minute"), ("1 week", "hour")):
            tab.press(span)
            expect(tab.page.get_by_text(f"one point per {points}")).to_be_visible()
        tab.picture("health-week")
        tab.press("8 weeks")
        expect(tab.page.get_by_text("one point per day")).to_be_visible()
        reply = {
            title: tab.page.get_by_role("img", name=title).get_attribute("aria-label") or ""
            for title in ("Requests", "Memory", "Players online", "Event-loop lag")
        }
        assert reply["Memory"] == "Memory: resident 9650.5 MB", reply
        assert reply["Event-loop lag"] == "Event-loop lag: p95 19,980 ms, max 59,980 ms", reply
        assert reply["Players online"].startswith("Players online: players "), reply
        assert reply["Requests"].startswith("Requests: answered "), reply
        tab.picture("health-weeks")
        tab.press("10 min")
        expect(tab.page.get_by_text("one point every five seconds")).to_be_visible()
        memory = tab.page.get_by_role("img", name="Memory")
        expect(memory).to_have_attribute(
            "aria-label", re.compile(r"resident (?!9650\.5)[\d.]+ MB$")
        )


def test_the_backup_tile_fits_and_gives_the_date_once(browser: Browser, here: Host) -> None:
    made = datetime(2026, 5, 1, 3, 14, tzinfo=UTC).timestamp()
    name = f"{here.folder}/svc-backup-20260501-031400.tar.gz"
    damaged = Backup(
        name,
        made,
        9,
        "",
        proven=made,
        fault="the file is damaged: it has changed since it was written",
    )
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tile = tab.page.locator(".tile").filter(has_text="Backup")
        backups.write(here.folder, Backups([damaged]))
        expect(tile).to_contain_text("Needs attention")
        tab.picture("backup-attention")
        tested = evolve(damaged, made=time.time(), proven=time.time(), fault=None)
        backups.write(here.folder, Backups([tested]))
        expect(tile).to_contain_text("Tested")
        assert len(re.findall(r"\d+:\d\d", tile.inner_text())) == 1
        tab.picture("backup-tested")


def an_evening(now: float) -> HostState:
    """Return the state of a host with all services, and an hour of its load."""
    names = ("metagame", "deploy", "content", "allowlist", "gateway")
    services = tuple(ServiceState(name, "ready", now - 7300, 0, "0.2.0") for name in names)
    samples = [
        MachineSample(
            now - 60 * ago,
            round(30 + 20 * math.sin(ago / 5), 1),
            (900 + 4 * ago) << 20,
            4 << 30,
            30 << 30,
            80 << 30,
            210 + ago,
            1024,
        )
        for ago in range(60, -1, -1)
    ]
    return HostState(now, services, (), tuple(samples))


@proves("a service that is frozen is down")
def test_the_overview_shows_problems_and_where_to_look(browser: Browser, here: Host) -> None:
    comes_online(here, 0)
    state = an_evening(time.time())
    host_state.write(here.folder, state)
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        status = tab.page.get_by_role("region", name="Status")
        expect(status).to_have_text("All systems normal")
        gateway = tab.page.locator(".services li").filter(has_text="gateway")
        expect(gateway).to_contain_text(re.compile("running.*0.2.0.*up 2 h 1 min.*0 restarts"))
        expect(tab.page.locator(".services li").filter(has_text="SQLite")).to_contain_text("3.")
        cpu = tab.page.get_by_role("img", name=re.compile(r"^CPU in the last hour: 10.* to 50 %$"))
        expect(cpu).to_be_visible()
        tab.picture("overview-normal")
        fault = HostFault("down", "gateway is down", "See its log lines.", time.time() - 90)
        down = evolve(state.services[4], state="down", restarts=3)
        full = evolve(state.machine[-1], disk_used=75 << 30)
        samples = (*state.machine[:-1], full)
        bad = evolve(state, services=(*state.services[:4], down), faults=(fault,), machine=samples)
        host_state.write(here.folder, bad)
        here.admin("POST", "DashboardDrain", {"On": True, "Reason": "an update"})
        expect(status).to_contain_text("gateway is down")
        expect(status).not_to_contain_text("All systems normal")
        expect(status).to_contain_text("an update")
        disk_line = status.get_by_role("listitem").filter(has_text="Disk: almost full")
        expect(disk_line.get_by_role("link")).to_have_text("Keep fewer backups")
        expect(gateway).to_contain_text("down")
        disk = tab.page.locator(".tile").filter(has_text="Disk")
        expect(disk).to_contain_text("almost full: 75.0 GB of 80.0 GB")
        tab.picture("overview-faults")
        starting = evolve(state, services=(*state.services[:4], evolve(down, state="starting")))
        host_state.write(here.folder, starting)
        expect(status).to_contain_text("gateway is starting")
        expect(status).not_to_contain_text("All systems normal")
        status.get_by_role("link", name="Read the log").click()
        expect(tab.page.get_by_role("heading", level=1)).to_have_text("Log")
    here.admin("POST", "DashboardDrain", {"On": False})
    (here.folder / host_state.STATE_FILE).unlink()


@proves("GET DashboardAlerts")
def test_incidents_are_listed_with_begin_and_end(browser: Browser, here: Host) -> None:
    now = time.time()
    state = an_evening(now)
    unwatched = Incident("host was not watched", "svc-stack was not running.", now - 9000, now - 60)
    lasting = Incident("gateway is down", "It has not been ready for 45 s.", now - 90)
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Alerts")
        expect(tab.page.get_by_text("No incident yet.")).to_be_visible()
        host_state.write(here.folder, evolve(state, incidents=(lasting, unwatched)))
        incidents = tab.page.get_by_role("list", name="Incidents").get_by_role("listitem")
        expect(incidents).to_have_text(
            [
                re.compile("^gateway is down.*since .* It has not been ready.*ongoing$"),
                re.compile(r"^host was not watched.*20.*20.*running\.2 h 29 min$"),
            ]
        )
        tab.picture("alerts-incidents")
        ended = evolve(lasting, until=now - 30)
        host_state.write(here.folder, evolve(state, incidents=(ended, unwatched)))
        expect(incidents.first).to_have_text(re.compile("1 min$"))
    (here.folder / host_state.STATE_FILE).unlink()


@proves("a service that is frozen is down")
def test_each_problem_on_the_overview_links_to_a_page(browser: Browser, here: Host) -> None:
    now = time.time()
    state = an_evening(now)
    kinds = [kind for kind in AlertKind if kind is not AlertKind.TEST]
    faults = tuple(HostFault(kind, f"the {kind}", "It is wrong.", now) for kind in kinds)
    *earlier, newest = state.machine
    full = evolve(newest, memory_used=newest.memory_total, files=newest.most_files)
    services = (evolve(state.services[0], state="starting"), *state.services[1:])
    bad = evolve(state, services=services, faults=faults, machine=(*earlier, full))
    host_state.write(here.folder, bad)
    before = backups.read(here.folder) or Backups()
    backups.write(here.folder, evolve(before, fault="It failed."))
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        lines = tab.page.get_by_role("region", name="Status").get_by_role("listitem")
        expect(lines).to_have_count(len(kinds) + 3)  # a start, memory and open files
        pages = {f"#/{page}" for page in PAGES} | {"#/servers"}
        for line in lines.all():
            assert line.get_by_role("link").get_attribute("href") in pages, line.inner_text()
    backups.write(here.folder, before)
    (here.folder / host_state.STATE_FILE).unlink()


def a_week(now: float) -> HostHistory:
    """Return the figures of a week in which the host was off once.

    In the same week, the host's gateway was down once for an hour.
    """
    history = HostHistory()
    begin = int(now) // STEP_S * STEP_S - KEPT_S + STEP_S
    for number in range(KEPT_S // STEP_S):
        at, ago_h = begin + number * STEP_S, (KEPT_S - number * STEP_S) / 3600
        if 60 < ago_h < 80:
            continue
        load = {"cpu": round(35 + 25 * math.sin(number / 46), 1), "memory": 40.0, "disk": 37.5}
        services = dict.fromkeys(("metagame", "deploy", "content", "allowlist"), 1.0)
        history.add(at, load, {**services, "gateway": 0.0 if 5 < ago_h < 6 else 1.0})
    return history


@proves("GET DashboardHistory")
def test_the_overview_shows_a_week_of_load_and_outages(browser: Browser, here: Host) -> None:
    comes_online(here, 0)
    now = time.time()
    host_state.write(here.folder, an_evening(now))
    host_history.write(here.folder, a_week(now))
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        services = tab.page.locator(".services li")
        expect(services.filter(has_text="deploy")).to_contain_text("100 % in 24 hours")
        gateway = services.filter(has_text="gateway")
        expect(gateway).to_contain_text(re.compile(r"9[56]\.\d+ % in 24 hours"))
        bars = gateway.locator("rect")
        expect(bars).to_have_count(24)
        expect(gateway.locator("rect.bad")).not_to_have_count(0)
        expect(services.filter(has_text="SQLite").locator("rect")).to_have_count(0)
        cpu = tab.page.get_by_role("img", name=re.compile("^CPU in the last "))
        expect(cpu).to_have_attribute("aria-label", re.compile("^CPU in the last hour: "))
        tab.press("7 days")
        expect(cpu).to_have_attribute(
            "aria-label", re.compile(r"^CPU in the last 7 days: 10.* to ")
        )
        expect(gateway).to_contain_text(re.compile(r"99\.\d+ % in 7 days"))
        expect(bars).to_have_count(28)
        expect(gateway.locator("rect.none")).not_to_have_count(0)
        tab.picture("overview-week")
        tab.press("Enlarge CPU")
        graph = tab.page.get_by_role("dialog").get_by_role("slider", name="CPU")
        graph.press("Home")
        expect(graph).to_have_attribute(
            "aria-valuetext", re.compile(r"^\d+ \w+, \d\d:\d\d, CPU [\d.]+ %$")
        )
        tab.picture("overview-graph")
        tab.confirm("Close")
        tab.press("24 hours")
        expect(cpu).to_have_attribute("aria-label", re.compile("^CPU in the last 24 hours: "))
        expect(bars).to_have_count(24)
        players = tab.page.locator(".tile").filter(has_text="Players online")
        expect(players).to_contain_text(re.compile(r"in the last 90 s, of \d+ accounts"))
        tab.picture("overview-day")
    (here.folder / host_history.HISTORY_FILE).unlink()
    (here.folder / host_state.STATE_FILE).unlink()


def test_colours_are_chosen_by_hand_and_stay(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        page = tab.page
        tab.sign_in(here.key)
        tab.go("Health")
        for colours, ground in GROUNDS.items():
            tab.open_menu()
            page.get_by_label("Colours").select_option(colours)
            for _ in tab.each_look():
                assert page.evaluate(GROUND) == ground
                tab.check_fit(colours)
                tab.look_over(f"{colours} by hand, {tab.look}")
            page.reload()
            # immediately, before a script has drawn anything
            assert page.evaluate(GROUND) == ground
            expect(page.locator("figure canvas")).to_have_count(6)
        second = page.context.new_page()
        second.goto(page.url)
        tab.open_menu()
        page.get_by_label("Colours").select_option("Automatic")
        for at, _ in zip(tab.looks, tab.each_look(), strict=True):
            for shown in (page, second):
                shown.emulate_media(color_scheme="dark" if at.endswith("dark") else "light")
                expect(shown.locator("body")).to_have_css(
                    "background-color", GROUNDS[at.partition("-")[2]]
                )


def test_health_joins_samples_that_are_minutes_apart(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        tab.page.route("**/svc/api/DashboardEvents?page=health", seldom)
        tab.sign_in(here.key)
        tab.go("Health")
        canvas = tab.page.locator("figure").filter(has_text="Latency").locator("canvas")
        expect(canvas).to_be_visible()
        assert canvas.evaluate(DRAWN) > 0.6
        tab.picture("health-sparse")


@pytest.mark.parametrize("size", list(SIZES))
def test_messages_do_not_pile_up_or_cover_a_button(browser: Browser, here: Host, size: str) -> None:
    with visit(browser, here, size) as tab:
        tab.page.context.grant_permissions(["clipboard-write"])
        tab.sign_in(here.key)
        tab.go("Invites")
        row = tab.page.get_by_role("row").filter(has_text="OPEN-EVENING")
        for _ in range(3):
            row.get_by_role("button", name="Copy", exact=True).click()
            tab.expect_confirmation("Code copied")
        expect(tab.page.locator("#says p")).to_have_count(1)
        assert tab.page.evaluate(COVERED) == []
        row.get_by_role("button", name="Share").click()
        tab.press("Copy everything")
        tab.expect_confirmation("Invite copied")
        assert tab.page.evaluate(COVERED) == []
        tab.picture("message")
        tab.confirm("Close")


def test_the_menu_of_a_phone_fits_and_closes_by_keyboard(browser: Browser, here: Host) -> None:
    with visit(browser, here, "phone") as tab:
        tab.sign_in(here.key)
        nav = tab.page.get_by_role("navigation")
        expect(nav).to_be_hidden()
        tab.menu.press("Enter")
        links = nav.get_by_role("link").all()
        assert len(links) == len(PAGES)
        for link in links:
            box = link.bounding_box()
            assert box is not None and box["x"] >= 0 and box["height"] >= 44, link
            assert box["x"] + box["width"] <= SIZES["phone"][0], link
            assert link.evaluate("(one) => one.scrollWidth <= one.clientWidth"), link
        tab.picture("menu")
        links[0].press("Escape")
        expect(nav).to_be_hidden()
        expect(tab.menu).to_be_focused()
        tab.go("Audit")
        expect(nav).to_be_hidden()
        expect(tab.page.get_by_role("main")).to_be_focused()


def test_a_wide_screen_is_used_and_pages_open_by_keyboard(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        page = tab.page
        page.set_viewport_size({"width": 1920, "height": 1080})
        page.emulate_media(reduced_motion="reduce")
        tab.sign_in(here.key)
        page.get_by_role("link", name="Skip to the content").press("Enter")
        expect(page.get_by_role("main")).to_be_focused()
        for name in PAGES:
            link = page.locator("#nav").get_by_role("link", name=name.capitalize())
            link.focus()
            page.keyboard.press("Enter")
            expect(page.get_by_role("heading", level=1)).to_have_text(name.capitalize())
            tab.drawn()
            assert page.evaluate("document.getAnimations().length") == 0
            assert page.evaluate(WIDER) == [], name
            width = page.locator("#content").evaluate("(one) => one.clientWidth")
            assert width > 1_400, name


def test_the_log_omits_reads_by_dashboards(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        for _ in range(2):  # also the reads of an earlier session
            tab.sign_in(here.key)
            tab.go("Accounts")
            tab.press("Sign out")
        tab.sign_in(here.key)
        here.admin("GET", "DashboardSanctions")  # a request by a tool that uses the key
        tab.go("Log")
        lines = tab.page.get_by_role("log")
        expect(lines).to_contain_text("GET /svc/api/DashboardSanctions")
        expect(lines).to_contain_text("DELETE /svc/api/DashboardSession")
        expect(lines).not_to_contain_text("GET /svc/api/DashboardPeople")
        expect(lines).not_to_contain_text("GET /svc/dashboard")


def seldom(route: Route) -> None:
    """Answer with half an hour of health figures, with one request in every two minutes."""
    now = 1_790_000_000.0
    unknown = dict.fromkeys(("loopP50Ms", "loopP95Ms", "loopMaxMs", "rssMB", "players"))
    samples = [
        {"at": now - 5 * ago, "seconds": 5.0, **unknown}
        | dict.fromkeys(("requestsPerSecond", "clientErrors", "serverErrors", "aborted"), 0)
        | dict.fromkeys(("latencyP50UpperMs", "latencyP95UpperMs"), None if ago % 24 else 10)
        for ago in range(360, -1, -1)
    ]
    reply = json.dumps({"everySeconds": 5.0, "now": now, "samples": samples})
    route.fulfill(content_type="text/event-stream", body=f"data: {reply}\n\n")


def an_hour(route: Route) -> None:
    """Answer a request with an hour of made-up health figures."""
    now = 1_790_000_000.0
    samples = []
    for number in range(720):
        wave = math.sin(number / 60) + math.sin(number / 7) / 4
        samples.append(
            {
                "at": now - 3600 + 5 * number,
                "seconds": 5.0,
                "requestsPerSecond": round(40 + 24 * wave + number % 5, 1),
                "latencyP50UpperMs": 1 if number % 50 else 5,
                "latencyP95UpperMs": (5, 10, 10, 25)[number % 4] if number % 120 else 250,
                "clientErrors": int(number % 37 == 0) * 3,
                "serverErrors": int(number == 700),
                "aborted": int(number % 90 == 0),
                "loopP50Ms": 20.1,
                "loopP95Ms": round(21.5 + abs(wave), 1),
                "loopMaxMs": round(26 + 9 * abs(math.sin(number / 3)), 1),
                "rssMB": round(92 + number / 90, 1),
                "players": max(0, int(14 + 8 * wave)),
            }
        )
    requests = {"requestsPerSecond": 41.5, "serverErrors": 1, "serverErrorPercent": 0.1}
    requests |= {"latencyP50UpperMs": 5, "latencyP95UpperMs": 25}
    minute = {"requests": requests, "eventLoop": {"p50Ms": 20.1, "p95Ms": 21.8, "maxMs": 30.0}}
    reply = json.dumps({"everySeconds": 5.0, "now": now, "samples": samples, "lastMinute": minute})
    route.fulfill(content_type="text/event-stream", body=f"data: {reply}\n\n")


# slow: 60 s: every page in a browser, looked over by axe and pictured in each look
def test_every_page_fits_names_its_controls_and_is_pictured(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        page, picture = tab.page, tab.picture
        picture("sign-in")
        page.route("**/svc/api/DashboardEvents?page=health", an_hour)
        tab.sign_in(here.key)
        for name in PAGES:
            tab.go(name.capitalize())
            if name == "log":  # axe would take three seconds for all lines of the log
                page.get_by_label("Filter by text").fill("DashboardSession")
                expect(page.get_by_role("log")).to_contain_text("DashboardSession")
                expect(page.get_by_role("log")).not_to_contain_text("DashboardEvents")
            tab.drawn()
            if name == "game servers":  # no deploy server runs here
                expect(page.get_by_text("The deploy server does not answer.")).to_have_count(2)
            picture(name)
        open_account(tab, "Ann_1")
        picture("account")
        tab.press("Changes")
        expect(page.get_by_role("dialog").get_by_role("row").nth(1)).to_be_visible()
        picture("diff")
        tab.confirm("Close")
        tab.go("Invites")
        page.get_by_role("row").filter(has_text="OPEN-EVENING").get_by_role(
            "button", name="Share"
        ).click()
        expect(page.get_by_role("dialog").get_by_role("img")).to_be_visible()
        picture("share")
        tab.confirm("Close")
        tab.press("Revoke")
        picture("question")
