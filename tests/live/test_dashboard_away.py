"""The dashboard in a real browser while its server is frozen, killed and restarted.

Real processes are needed because the tests stop and kill the server while a browser uses it.
"""

import json
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from svcserver.web.eventstream import BEAT, FULL, SHARE
from tests.live.dashboard_page import NAMES, Host, Visit, comes_online, here, open_account, visit
from tests.live.real_browser import browser
from tests.support.processes import SELDOM_S, eventually, register
from tests.support.proves import proves

__all__ = ["browser", "here"]  # fixtures

pytestmark = pytest.mark.live

PATIENCE_MS = 40_000
PATIENT = """() => { // what a server may take: it is frozen for as long as the test needs
    const real = setTimeout;
    window.waits = [];
    window.setTimeout = (act, ms) => {
        window.waits.push(ms);
        return real(act, ms < 10_000 ? ms : 600_000);
    };
}"""
UNSURE = "your change may or may not have been saved"
ACTS = (("Ban", "Banned", "is banned"), ("Mute", "Muted", "is muted"))
READ = (
    "Overview",
    "Health",
    "Moderation",
    "Invites",
    "Guilds",
    "Log",
    "Bertram",
)  # the last name is that of an account


@contextmanager
def frozen(here: Host) -> Iterator[None]:
    """Freeze the metagame, which then accepts connections but answers nothing."""
    assert here.service.process is not None
    here.service.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        here.service.process.send_signal(signal.SIGCONT)


def says_that_it_is_away(tab: Visit) -> None:
    banner = tab.page.get_by_role("alert").filter(has_text="The server does not answer.")
    expect(banner).to_be_visible(timeout=PATIENCE_MS)
    expect(banner).to_have_text(re.compile(r"Last contact \d+\ss ago\. Trying again\."))


def is_back(tab: Visit) -> None:
    expect(tab.page.locator("#away")).to_be_hidden(timeout=PATIENCE_MS)


# slow: longer than a server may take to answer the page
@proves("the dashboard while its server is away")
def test_pages_of_a_frozen_server_show_old_data_and_its_age(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        link = tab.page.get_by_role("row").get_by_role("link", name="Bertram")
        link.focus()
        with frozen(here):
            says_that_it_is_away(tab)
            expect(link).to_be_focused()  # the page keeps its data, and shows how old the data is
            seconds = tab.page.locator("#away-since")
            before = seconds.inner_text()
            expect(seconds).not_to_have_text(before)
            tab.picture("away")
            tab.choose("Accounts")
            waits = "The page loads when the server answers."
            expect(tab.page.locator("#content")).to_contain_text(waits, timeout=PATIENCE_MS)
        is_back(tab)
        expect(tab.page.get_by_role("table", name="Accounts")).to_contain_text("Bertram")
        open_account(tab, "Bertram")
        with frozen(here):  # the page of one account also shows how old its data is
            says_that_it_is_away(tab)
            expect(tab.fact("Role")).to_have_text("player")
        is_back(tab)


def breaks(tab: Visit, route: str, status: int) -> None:
    """Answer each later request of the page for ``route`` with an error of this status."""
    body = {"error": "odd", "message": f"Broken with {status}."}
    headers = {"Retry-After": "1"}
    tab.page.route(route, lambda sent: sent.fulfill(status=status, json=body, headers=headers))


def test_a_page_that_cannot_be_read_says_why_and_loads_again(browser: Browser, here: Host) -> None:
    reads = "**/DashboardSanctions"
    with visit(browser, here) as tab:
        content = tab.page.locator("#content")
        title = tab.page.get_by_role("heading", name="Bans and mutes")
        tab.sign_in(here.key)
        for status in (404, 409, 429, 500, 502, 503, 504):
            tab.go("Guilds")
            breaks(tab, reads, status)
            tab.go("Moderation")
            expect(content).to_contain_text(f"Broken with {status}.")
            expect(content.get_by_text("Waiting")).to_have_count(0)
            tab.page.unroute(reads)
            if status in (404, 409):
                tab.press("Load again")
            expect(title).to_be_visible()
        breaks(tab, reads, 429)
        here.admin("POST", "DashboardMute", {"Account": "Eve", "Reason": "loud"})
        expect(content).to_contain_text("This page is not up to date. Broken with 429.")
        expect(title).to_be_visible()
        tab.picture("not-up-to-date")
        tab.page.unroute(reads)
        expect(tab.page.get_by_role("row").filter(has_text="loud")).to_be_visible()
        expect(content.get_by_text("not up to date")).to_be_hidden()
        here.admin("POST", "DashboardUnmute", {"Account": "Eve"})


def test_an_error_in_a_page_is_shown_in_place(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.page.route("**/DashboardSanctions", lambda sent: sent.fulfill(json={"count": 0}))
        tab.go("Moderation")
        expect(tab.page.locator("#content")).to_contain_text("The page has an error: ")
        tab.page.unroute("**/DashboardSanctions")
        tab.press("Load again")
        expect(tab.page.get_by_role("heading", name="Bans and mutes")).to_be_visible()
        errors = [text for text in tab.faults if "Failed to load" not in text]
        assert len(errors) == 1 and "TypeError" in errors[0], errors
        tab.faults.clear()
        tab.page.goto(f"{tab.address}/svc/dashboard#/accounts/%E0")  # no valid address
        expect(tab.page.get_by_role("heading", level=1)).to_have_text("No such account")


VISIBILITY = """(state) => {
  Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => state });
  document.dispatchEvent(new Event('visibilitychange'));
}"""


@proves("GET DashboardEvents")
def test_a_page_without_a_stream_says_why_and_resumes(browser: Browser, here: Host) -> None:
    stream = "**/DashboardEvents?page=moderation"
    full = "event: full\ndata: {}\n\n"
    with visit(browser, here) as tab:
        page, content = tab.page, tab.page.locator("#content")
        tab.sign_in(here.key)
        page.route(stream, lambda sent: sent.fulfill(content_type="text/event-stream", body=full))
        tab.go("Moderation")
        expect(content).to_contain_text("No live updates. This account has too many pages open.")
        tab.picture("no-stream")
        page.unroute(stream)
        here.admin("POST", "DashboardMute", {"Account": "Eve", "Reason": "loud"})
        expect(page.get_by_role("row").filter(has_text="loud")).to_be_visible()
        expect(content.get_by_text("No live updates")).to_be_hidden()
        here.admin("POST", "DashboardUnmute", {"Account": "Eve"})
        tab.go("Guilds")
        breaks(tab, stream, 503)
        tab.go("Moderation")
        expect(content).to_contain_text("No live updates. Broken with 503.")
        page.unroute(stream)
        expect(content.get_by_text("No live updates")).to_be_hidden()
        tab.go("Guilds")
        # free a connection: a browser opens only six to one server
        page.evaluate(VISIBILITY, "hidden")
        tab.requested.clear()
        tab.go("Moderation")
        tab.drawn()
        assert not [url for url in tab.requested if "DashboardEvents" in url]
        with page.expect_request(stream):
            page.evaluate(VISIBILITY, "visible")


@proves("GET DashboardEvents")
def test_the_ninth_stream_of_an_account_ends_its_oldest(here: Host) -> None:
    headers = {"x-svc-user-api-key": here.key, "Accept": "text/event-stream"}
    with ExitStack() as connections:
        streams = []
        for _ in range(SHARE + 1):
            connection = connections.enter_context(
                closing(HTTPConnection("127.0.0.1", here.service.port, timeout=20))
            )
            connection.request("GET", "/svc/api/DashboardEvents?page=beat", headers=headers)
            streams.append(connection.getresponse())
        assert [stream.status for stream in streams] == [200] * (SHARE + 1)
        assert streams[0].read().endswith(FULL)
        assert streams[1].read(len(BEAT)) == BEAT


@proves("the dashboard while its server is away")
def test_a_live_update_is_shown_and_keeps_the_keyboard_focus(browser: Browser, here: Host) -> None:
    comes_online(here, 2, "LoginMenu")
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        table = tab.page.get_by_role("table", name="Players online")
        row = table.get_by_role("row").filter(has_text="Cleo")
        link = row.get_by_role("link")
        link.focus()
        comes_online(here, 2)
        expect(row).to_contain_text("In the city", timeout=PATIENCE_MS)
        expect(link).to_be_focused()


# slow: a metagame, killed and started again before a browser
@proves("the dashboard while its server is away")
def test_a_killed_server_comes_back_and_knows_the_session(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Chat")
        here.service.stop(signal.SIGKILL)
        says_that_it_is_away(tab)
        tab.choose("Audit")
        expect(tab.page.locator("#content")).to_contain_text("The server does not answer.")
        here.service.start()
        is_back(tab)
        expect(tab.page.get_by_role("heading", level=1)).to_have_text("Audit")
        expect(tab.page.locator("#content .card").first).to_contain_text("sign in")
        tab.picture("session-survived")
        assert len(here.players) == len(NAMES)


def held(here: Host, name: str, kind: str) -> bool:
    """Return whether the account is in this state on the server."""
    return bool(here.admin("GET", f"DashboardPerson?Account={name}")[kind.lower()])


def agree(tab: Visit, here: Host, name: str, act: str) -> bool:
    """Return whether the account's page shows the state that the server has."""
    shown = tab.fact({"Ban": "Banned", "Mute": "Muted"}[act]).count() == 1
    return shown == held(here, name, act)


# slow: longer than a server may take to answer the page, twice
@proves("the dashboard while its server is away")
def test_an_act_whose_answer_is_late_is_not_called_a_failure(browser: Browser, here: Host) -> None:
    for act, fact, done in ACTS:
        name = f"Late_{act}"
        register(here.service, name)
        with visit(browser, here) as tab:
            tab.sign_in(here.key)
            open_account(tab, name)
            tab.press(act)
            with frozen(here):
                tab.answer(act, Reason="first")
                expect(tab.page.locator("#says .bad")).to_contain_text(UNSURE, timeout=PATIENCE_MS)
                says_that_it_is_away(tab)
            is_back(tab)  # and the page itself shows the result of the action
            eventually(partial(agree, tab, here, name, act), pause_s=SELDOM_S)
            tab.press(act)
            tab.answer(act, Reason="again")
            tab.expect_confirmation(done)
            expect(tab.fact(fact)).to_contain_text("again")
            expect(tab.fact(fact)).to_have_count(1)
            assert held(here, name, act)


@proves("the dashboard while its server is away")
def test_a_key_is_shown_though_its_dialog_is_closed_before_it_comes(
    browser: Browser, here: Host
) -> None:
    player = register(here.service, "Hasty")
    here.admin("POST", "DashboardRole", {"Account": "Hasty", "Role": "moderator"})
    with visit(browser, here) as tab:
        tab.sign_in(player["key"])
        tab.press("My access")
        tab.confirm("Create a dashboard key")
        tab.page.evaluate(PATIENT)
        asks = tab.page.get_by_role("dialog", name="Create a dashboard key")
        with frozen(here):
            with tab.page.expect_request("**/DashboardOwnKey"):
                tab.answer("Create", Key=player["key"])
            # the answer holds the only copy, so the page waits longer for this answer
            assert 35_000 in tab.page.evaluate("window.waits")
            for name in ("Cancel", "Create"):
                expect(asks.get_by_role("button", name=name)).to_be_disabled()
            tab.page.keyboard.press("Escape")
            expect(asks).to_be_visible()
            tab.page.keyboard.press("Escape")  # some browsers close the dialog at the second Escape
            asks.evaluate_all("(all) => all.forEach((one) => one.close())")
            expect(asks).to_be_hidden()
        tab.expect_confirmation("The dashboard has a separate key now")
        shown = tab.page.get_by_role("dialog", name="Your dashboard key")
        key = shown.locator(".join").inner_text()
        tab.confirm("Close")
        tab.press("Sign out")
        tab.sign_in(key)
        expect(tab.page.locator("#who")).to_have_text("Hasty (moderator)")


# slow: a metagame, killed and started again before a browser
@proves("the dashboard while its server is away")
def test_an_act_in_which_the_server_is_killed_is_seen_and_done_again(
    browser: Browser, here: Host
) -> None:
    register(here.service, "Unlucky")
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        open_account(tab, "Unlucky")
        tab.press("Mute")
        with frozen(here):
            with tab.page.expect_request("**/DashboardMute"):
                tab.answer("Mute", Reason="first")
            here.service.stop(signal.SIGKILL)
        expect(tab.page.locator("#says .bad")).to_contain_text(UNSURE)
        says_that_it_is_away(tab)
        here.service.start()
        is_back(tab)
        expect(tab.page.get_by_role("heading", level=1)).to_have_text("Unlucky")
        eventually(partial(agree, tab, here, "Unlucky", "Mute"), pause_s=SELDOM_S)
        tab.press("Mute")
        tab.answer("Mute", Reason="again")
        tab.expect_confirmation("Unlucky is muted")
        expect(tab.fact("Muted")).to_contain_text("again")


# slow: longer than the page calls a server silent, and than it waits for a deletion
@proves("POST DashboardExport", "POST DashboardDelete", "the dashboard while its server is away")
def test_an_account_is_deleted_only_after_its_data_are_downloaded(
    browser: Browser, here: Host, tmp_path: Path
) -> None:
    for name in ("Slow_Bye", "Lost_Bye"):
        register(here.service, name)
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        open_account(tab, "Slow_Bye")
        tab.press("Delete")
        tab.look_at_question()  # this takes long, so it is not done during the download
        with tab.page.expect_download(timeout=PATIENCE_MS) as got, frozen(here):
            tab.answer("Delete", Type="Slow_Bye")
            says_that_it_is_away(tab)
        got.value.save_as(tmp_path / "slow.json")
        assert json.loads((tmp_path / "slow.json").read_text())["account"] == "Slow_Bye"
        tab.expect_confirmation("Slow_Bye is deleted")
        expect(tab.page.get_by_role("heading", level=1)).to_have_text("Accounts")

        def dies(route: Route) -> None:
            here.service.stop(signal.SIGKILL)
            route.continue_()

        tab.page.route("**/DashboardDelete", dies)
        open_account(tab, "Lost_Bye")
        tab.press("Delete")
        with tab.page.expect_download() as got:
            tab.answer("Delete", Type="Lost_Bye")
        expect(tab.page.locator("#says .bad")).to_contain_text(UNSURE)
        got.value.save_as(tmp_path / "lost.json")
        assert json.loads((tmp_path / "lost.json").read_text())["account"] == "Lost_Bye"
        tab.press("Export")  # the page offers no file, and reports this
        expect(tab.page.locator("#says .bad").last).to_contain_text("does not answer")
        here.service.start()
        is_back(tab)
        tab.page.unroute("**/DashboardDelete")
        tab.press("Delete")
        with tab.page.expect_download():
            tab.answer("Delete", Type="Lost_Bye")
        tab.expect_confirmation("Lost_Bye is deleted")


# slow: seven pages, longer than a server may take to answer them, frozen and then killed
@proves("the dashboard while its server is away")
def test_every_page_stays_and_says_how_old_it_is(browser: Browser, here: Host) -> None:
    with ExitStack() as open_pages:
        shown = []
        for name in READ:
            tab = open_pages.enter_context(visit(browser, here))
            tab.sign_in(here.key)
            if name == "Bertram":
                open_account(tab, name)
            else:
                tab.go(name)
            expect(tab.page.locator("#content .card").first).to_be_visible()
            shown.append((tab, name))
        with frozen(here):
            for tab, name in shown:
                stays(tab, name)
            moved, _ = shown[0]
            for name in READ[1:-1]:  # open another page, whose data cannot arrive
                moved.choose(name)
                expect(moved.page.get_by_role("heading", level=1)).to_have_text(name)
                says_that_it_is_away(moved)
            moved.choose(READ[0])
        for tab, name in shown:
            is_back(tab)
            expect(tab.page.get_by_role("heading", level=1)).to_have_text(name)
            tab.drawn()  # drawing begins when the server answers, and ends a little later
        here.service.stop(signal.SIGKILL)
        for tab, name in shown:
            stays(tab, name)
        here.service.start()
        for tab, name in shown:
            is_back(tab)
            expect(tab.page.get_by_role("heading", level=1)).to_have_text(name)


def stays(tab: Visit, name: str) -> None:
    """Check that the page still shows the account's data and says that the server is away."""
    says_that_it_is_away(tab)
    expect(tab.page.get_by_role("heading", level=1)).to_have_text(name)
    expect(tab.page.locator("#content .card").first).to_be_visible()
