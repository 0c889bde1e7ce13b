"""The owner's page while its server is frozen, killed and started again, in a real browser.

Why processes: the server is stopped and killed under a browser that asks it.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.live.dashboard_page import (
    NAMES,
    Host,
    Visit,
    comes_online,
    here,
    open_account,
    visit,
)
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
UNSURE = "it may have been done, or not"
ACTS = (("Ban", "Banned", "is banned"), ("Mute", "Muted", "is muted"))
READ = (
    "Machine",
    "Health",
    "Moderation",
    "Invites",
    "Guilds",
    "Log",
    "Bertram",
)  # the last is an account


@contextmanager
def frozen(here: Host) -> Iterator[None]:
    """The metagame takes connections and answers nothing."""
    assert here.service.process is not None
    here.service.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        here.service.process.send_signal(signal.SIGCONT)


def says_that_it_is_away(seen: Visit) -> None:
    banner = seen.page.get_by_role("alert").filter(has_text="The server does not answer.")
    expect(banner).to_be_visible(timeout=PATIENCE_MS)
    expect(banner).to_have_text(re.compile(r"Last heard \d+\ss ago, trying again\."))


def is_back(seen: Visit) -> None:
    expect(seen.page.locator("#away")).to_be_hidden(timeout=PATIENCE_MS)


# slow: longer than a server may take to answer the page
@proves("the dashboard while its server is away")
def test_a_frozen_server_is_said_and_no_page_is_blank(browser: Browser, here: Host) -> None:
    with visit(browser, here, "phone", "dark") as seen:
        seen.sign_in(here.key)
        link = seen.page.get_by_role("row").get_by_role("link", name="Bertram")
        link.focus()
        with frozen(here):
            says_that_it_is_away(seen)
            expect(link).to_be_focused()  # what was shown stays, and says how old it is
            seconds = seen.page.locator("#away-since")
            before = seconds.inner_text()
            expect(seconds).not_to_have_text(before)
            seen.picture("away")
            seen.page.get_by_role("link", name="Accounts", exact=True).click()
            waits = "The page comes as soon as it does."
            expect(seen.page.locator("#content")).to_contain_text(waits, timeout=PATIENCE_MS)
        is_back(seen)
        expect(seen.page.get_by_role("table", name="Accounts")).to_contain_text("Bertram")
        open_account(seen, "Bertram")
        with frozen(here):  # the page of one account says how old it is, as all others do
            says_that_it_is_away(seen)
            expect(seen.fact("Role")).to_have_text("player")
        is_back(seen)


@proves("the dashboard while its server is away")
def test_what_changes_is_shown_and_the_keyboards_place_kept(browser: Browser, here: Host) -> None:
    comes_online(here, 2, "LoginMenu")
    with visit(browser, here) as seen:
        seen.sign_in(here.key)
        table = seen.page.get_by_role("table", name="Players online")
        row = table.get_by_role("row").filter(has_text="Cleo")
        link = row.get_by_role("link")
        link.focus()
        comes_online(here, 2)
        expect(row).to_contain_text("In the city", timeout=PATIENCE_MS)
        expect(link).to_be_focused()


# slow: a metagame, killed and started again before a browser
@proves("the dashboard while its server is away")
def test_a_killed_server_comes_back_and_knows_the_session(browser: Browser, here: Host) -> None:
    with visit(browser, here) as seen:
        seen.sign_in(here.key)
        seen.go("Chat")
        here.service.stop(signal.SIGKILL)
        says_that_it_is_away(seen)
        seen.page.get_by_role("link", name="Audit", exact=True).click()
        expect(seen.page.locator("#content")).to_contain_text("The server does not answer.")
        here.service.start()
        is_back(seen)
        expect(seen.page.get_by_role("heading", level=1)).to_have_text("Audit")
        expect(seen.page.locator("#content .card").first).to_contain_text("sign in")
        assert len(here.players) == len(NAMES)


def held(here: Host, name: str, kind: str) -> bool:
    """Whether the server says so of an account."""
    return bool(here.admin("GET", f"DashboardPerson?Account={name}")[kind.lower()])


def agree(seen: Visit, here: Host, name: str, act: str) -> bool:
    """Whether the page of an account says what the server says."""
    shown = seen.fact({"Ban": "Banned", "Mute": "Muted"}[act]).count() == 1
    return shown == held(here, name, act)


# slow: longer than a server may take to answer the page, twice
@proves("the dashboard while its server is away")
def test_an_act_whose_answer_is_late_is_not_called_a_failure(browser: Browser, here: Host) -> None:
    for act, fact, done in ACTS:
        name = f"Late_{act}"
        register(here.service, name)
        with visit(browser, here) as seen:
            seen.sign_in(here.key)
            open_account(seen, name)
            seen.press(act)
            with frozen(here):
                seen.answer(act, Reason="first")
                expect(seen.page.locator("#says .bad")).to_contain_text(UNSURE, timeout=PATIENCE_MS)
                says_that_it_is_away(seen)
            is_back(seen)  # and the page says by itself what came of it
            eventually(partial(agree, seen, here, name, act), pause_s=SELDOM_S)
            seen.press(act)
            seen.answer(act, Reason="again")
            seen.told(done)
            expect(seen.fact(fact)).to_contain_text("again")
            expect(seen.fact(fact)).to_have_count(1)
            assert held(here, name, act)


@proves("the dashboard while its server is away")
def test_a_key_is_shown_though_its_dialog_is_closed_before_it_comes(
    browser: Browser, here: Host
) -> None:
    player = register(here.service, "Hasty")
    here.admin("POST", "DashboardRole", {"Account": "Hasty", "Role": "moderator"})
    with visit(browser, here) as seen:
        seen.sign_in(player["key"])
        seen.press("My access")
        seen.confirm("Make a key for the dashboard")
        seen.page.evaluate(PATIENT)
        asks = seen.page.get_by_role("dialog", name="Make a key for the dashboard")
        with frozen(here):
            with seen.page.expect_request("**/DashboardOwnKey"):
                seen.answer("Make it", Key=player["key"])
            # the only copy is in the answer: it is waited for longer than others
            assert 35_000 in seen.page.evaluate("window.waits")
            for name in ("Cancel", "Make it"):
                expect(asks.get_by_role("button", name=name)).to_be_disabled()
            seen.page.keyboard.press("Escape")
            expect(asks).to_be_visible()
            seen.page.keyboard.press("Escape")  # this one some browsers let through
            asks.evaluate_all("(all) => all.forEach((one) => one.close())")
            expect(asks).to_be_hidden()
        seen.told("The dashboard has a key of its own")
        shown = seen.page.get_by_role("dialog", name="Your key for the dashboard")
        key = shown.locator(".join").inner_text()
        seen.confirm("Close")
        seen.press("Sign out")
        seen.sign_in(key)
        expect(seen.page.locator("#who")).to_have_text("Hasty (moderator)")


# slow: a metagame, killed and started again before a browser
@proves("the dashboard while its server is away")
def test_an_act_in_which_the_server_is_killed_is_seen_and_done_again(
    browser: Browser, here: Host
) -> None:
    register(here.service, "Unlucky")
    with visit(browser, here) as seen:
        seen.sign_in(here.key)
        open_account(seen, "Unlucky")
        seen.press("Mute")
        with frozen(here):
            with seen.page.expect_request("**/DashboardMute"):
                seen.answer("Mute", Reason="first")
            here.service.stop(signal.SIGKILL)
        expect(seen.page.locator("#says .bad")).to_contain_text(UNSURE)
        says_that_it_is_away(seen)
        here.service.start()
        is_back(seen)
        expect(seen.page.get_by_role("heading", level=1)).to_have_text("Unlucky")
        eventually(partial(agree, seen, here, "Unlucky", "Mute"), pause_s=SELDOM_S)
        seen.press("Mute")
        seen.answer("Mute", Reason="again")
        seen.told("Unlucky is muted")
        expect(seen.fact("Muted")).to_contain_text("again")


# slow: longer than the page calls a server silent, and than it waits for a deletion
@proves("POST DashboardExport", "POST DashboardDelete", "the dashboard while its server is away")
def test_an_account_is_deleted_only_after_what_was_kept_is_downloaded(
    browser: Browser, here: Host, tmp_path: Path
) -> None:
    for name in ("Slow_Bye", "Lost_Bye"):
        register(here.service, name)
    with visit(browser, here) as seen:
        seen.sign_in(here.key)
        open_account(seen, "Slow_Bye")
        seen.press("Delete")
        with seen.page.expect_download(timeout=PATIENCE_MS) as got, frozen(here):
            seen.answer("Delete", Write="Slow_Bye")
            says_that_it_is_away(seen)
        got.value.save_as(tmp_path / "slow.json")
        assert json.loads((tmp_path / "slow.json").read_text())["account"] == "Slow_Bye"
        seen.told("Slow_Bye is deleted")
        expect(seen.page.get_by_role("heading", level=1)).to_have_text("Accounts")

        def dies(route: Route) -> None:
            here.service.stop(signal.SIGKILL)
            route.continue_()

        seen.page.route("**/DashboardDelete", dies)
        open_account(seen, "Lost_Bye")
        seen.press("Delete")
        with seen.page.expect_download() as got:
            seen.answer("Delete", Write="Lost_Bye")
        expect(seen.page.locator("#says .bad")).to_contain_text(UNSURE)
        got.value.save_as(tmp_path / "lost.json")
        assert json.loads((tmp_path / "lost.json").read_text())["account"] == "Lost_Bye"
        seen.press("Export")  # nothing is handed out, and the page says so
        expect(seen.page.locator("#says .bad").last).to_contain_text("does not answer")
        here.service.start()
        is_back(seen)
        seen.page.unroute("**/DashboardDelete")
        seen.press("Delete")
        with seen.page.expect_download():
            seen.answer("Delete", Write="Lost_Bye")
        seen.told("Lost_Bye is deleted")


# slow: seven pages, longer than a server may take to answer them, frozen and then killed
@proves("the dashboard while its server is away")
def test_every_page_stays_and_says_how_old_it_is(browser: Browser, here: Host) -> None:
    with ExitStack() as open_pages:
        shown = []
        for name in READ:
            seen = open_pages.enter_context(visit(browser, here))
            seen.sign_in(here.key)
            if name == "Bertram":
                open_account(seen, name)
            else:
                seen.go(name)
            expect(seen.page.locator("#content .card").first).to_be_visible()
            shown.append((seen, name))
        with frozen(here):
            for seen, name in shown:
                stays(seen, name)
            moved, _ = shown[0]
            for name in READ[1:-1]:  # another page is asked for, which cannot come
                moved.page.get_by_role("link", name=name, exact=True).click()
                expect(moved.page.get_by_role("heading", level=1)).to_have_text(name)
                says_that_it_is_away(moved)
            moved.page.get_by_role("link", name=READ[0], exact=True).click()
        for seen, name in shown:
            is_back(seen)
            expect(seen.page.get_by_role("heading", level=1)).to_have_text(name)
            seen.drawn()  # which begins when the server is heard, and is over a little later
        here.service.stop(signal.SIGKILL)
        for seen, name in shown:
            stays(seen, name)
        here.service.start()
        for seen, name in shown:
            is_back(seen)
            expect(seen.page.get_by_role("heading", level=1)).to_have_text(name)


def stays(seen: Visit, name: str) -> None:
    """What was shown is there, and how old it is."""
    says_that_it_is_away(seen)
    expect(seen.page.get_by_role("heading", level=1)).to_have_text(name)
    expect(seen.page.locator("#content .card").first).to_be_visible()
