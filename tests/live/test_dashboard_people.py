"""Every action on people in the dashboard, in a real browser, and the limits of staff roles.

Real processes are needed because the browser is a process that keeps sending requests while a test
waits.
"""

import base64
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from playwright.sync_api import Browser, expect
from sqlalchemy import update

from svcserver.metagame.accounts.store import ACCOUNTS
from tests.chat.sockets import Talker
from tests.ctl.command import database_of
from tests.live.dashboard_page import (
    NAMES,
    PAGES,
    WIDER,
    Host,
    Visit,
    come_to_chat,
    comes_online,
    here,
    open_account,
    visit,
)
from tests.live.real_browser import browser
from tests.support.processes import bearer, register
from tests.support.proves import proves

__all__ = ["browser", "here"]  # fixtures

pytestmark = pytest.mark.live

SPILLS = """(room) => [...room.querySelectorAll('*')]
  .filter((one) => one.getBoundingClientRect().right > room.getBoundingClientRect().right + 1)
  .map((one) => one.outerHTML)"""


READS = {"Show", "Show more", "Show all 12", "Details", "Changes", "Compare with newest", "Copy id"}
CHOICES = {
    "All",
    "Staff",
    "Banned",
    "Muted",  # of the pages of health and of accounts
    *("10 min", "30 min", "1 hour", "1 day", "1 week", "8 weeks", "Name", "Last seen", "Role"),
}


def code_of(secret: str, steps: int = 0) -> str:
    """Return the one-time code that is valid ``steps`` times thirty seconds from now."""
    made = TOTP(base64.b32decode(secret), 6, SHA1(), 30)  # noqa: S303 - RFC 6238
    return made.generate(time.time() + 30 * steps).decode()


def log_in(here: Host, key: str) -> int:
    return here.service.ask("POST", "/account/api/oauth/token", {"exchange_code": key})[0]


@contextmanager
def account_page(browser: Browser, here: Host, name: str) -> Iterator[Visit]:
    """Open the dashboard's page of an account."""
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        open_account(tab, name)
        yield tab


def test_an_account_has_grouped_acts_and_named_tracks(browser: Browser, here: Host) -> None:
    falk = here.players[5]["id"]
    here.admin("POST", "SeedProgression", {"UserId": falk, "Mode": "grandfather"})
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        open_account(tab, NAMES[5])
        groups = [line.split("\n") for line in tab.page.locator(".group").all_inner_texts()]
        assert groups == [
            ["Player", "Rename", "Kick", "Mute"],
            ["Account", "Role", "New key", "Move notes", "Export"],
            ["Danger", "Ban", "Delete"],
        ]
        tracks = tab.page.get_by_role("table", name="Tracks")
        for name in ("Hunt pass, season 9b", "Player level", "Chain blades"):
            expect(tracks.get_by_text(name, exact=True)).to_be_visible()
        tab.picture("account-groups")


@proves("POST DashboardKick", "POST DashboardBan", "POST DashboardUnban")
def test_a_player_is_kicked_banned_and_let_in_again(browser: Browser, here: Host) -> None:
    player = register(here.service, "Noisy")
    with account_page(browser, here, "Noisy") as tab:
        tab.press("Kick")
        tab.answer("Kick", Reason="shouting")
        tab.expect_confirmation("Noisy is logged out")
        assert here.service.ask("GET", "/accountinfo", None, bearer(player))[0] == 401
        assert log_in(here, player["key"]) == 200
        tab.press("Ban")
        tab.answer("Ban", Duration="7d", Reason="again", Note="third time", Addresses="yes")
        tab.expect_confirmation("Noisy is banned")
        assert log_in(here, player["key"]) == 400
        expect(tab.fact("Banned")).to_contain_text("again")
        expect(tab.fact("Banned")).to_contain_text("third time")
        tab.picture("banned")
        tab.go("Accounts")
        row = tab.page.get_by_role("row").filter(has_text="Noisy")
        expect(row).to_contain_text("banned")
        tab.go("Moderation")
        row = tab.page.get_by_role("row").filter(has_text="Noisy")
        row.get_by_role("button", name="Unban").click()
        tab.answer("Unban")
        tab.expect_confirmation("Noisy may log in again")
        assert log_in(here, player["key"]) == 200
        open_account(tab, "Noisy")
        for act, undo, fact, done in (
            ("Mute", "Unmute", "Muted", "chat"),
            ("Ban", "Unban", "Banned", "log in"),
        ):
            tab.press(act)
            tab.answer(act)
            tab.fact(fact).get_by_role("button", name=undo).click()
            tab.answer(undo)
            tab.expect_confirmation(f"Noisy may {done} again")
            expect(tab.fact(fact)).to_have_count(0)
        assert log_in(here, player["key"]) == 200


@proves("POST DashboardNewKey", "POST DashboardMergeNotes")
def test_a_lost_key_and_the_notes_of_a_lost_account(browser: Browser, here: Host) -> None:
    player = register(here.service, "Forgetful")
    with account_page(browser, here, "Forgetful") as tab:
        tab.press("Move notes")
        tab.answer("Move", Name="Falk")
        expect(tab.fault()).to_contain_text("has no notes")
        with database_of(here.folder) as tx:
            tx.execute(update(ACCOUNTS).where(ACCOUNTS.c.id == player["id"]).values(notes=1_070))
        tab.page.reload()
        tab.press("Move notes")
        expect(tab.page.get_by_role("dialog")).to_contain_text("Forgetful has 1,070 notes")
        tab.answer("Move", Name="Falk", Reason="began anew")
        tab.expect_confirmation("1,070 notes of Forgetful moved to Falk")
        expect(tab.fact("Notes")).to_have_text("0")
        tab.press("New key")
        tab.answer("Create", Key=here.key, Reason="lost")
        key = tab.page.get_by_role("dialog").locator(".join").inner_text()
        tab.confirm("Close")
        assert (log_in(here, player["key"]), log_in(here, key)) == (400, 200)


@proves("POST DashboardExport", "POST DashboardDelete")
def test_an_account_is_handed_out_and_deleted(browser: Browser, here: Host, tmp_path: Path) -> None:
    player = register(here.service, "Leaving")
    with account_page(browser, here, "Leaving") as tab:
        with tab.page.expect_download() as got:
            tab.press("Export")
        got.value.save_as(tmp_path / "export.json")
        assert json.loads((tmp_path / "export.json").read_text())["account"] == "Leaving"
        tab.press("Delete")
        tab.answer("Delete", Type="leaving")
        expect(tab.fault()).to_contain_text("Nothing was deleted")
        with tab.page.expect_download() as got:
            tab.answer("Delete", Type="Leaving", Reason="asked for it")
        assert got.value.suggested_filename == "Leaving.json"
        tab.expect_confirmation("Leaving is deleted")
        expect(tab.page.get_by_role("heading", level=1)).to_have_text("Accounts")
        assert log_in(here, player["key"]) == 400


@proves("POST DashboardRole", "POST DashboardNewKey")
def test_a_role_and_a_new_key_need_the_key(browser: Browser, here: Host) -> None:
    player = register(here.service, "Rising")
    with account_page(browser, here, "Rising") as tab:
        tab.press("Role")
        tab.answer("Change", Role="moderator")
        expect(tab.fault()).to_contain_text("Enter the key")
        tab.look_at_question()
        tab.answer("Change", Key=here.key)
        tab.expect_confirmation("Rising is now moderator")
        expect(tab.fact("Role")).to_have_text("moderator")
        tab.press("New key")
        tab.look_at_question()
        tab.answer("Create", Key="UUK_wrong")
        expect(tab.fault()).not_to_be_empty()
        tab.answer("Create", Key=here.key)
        expect(tab.page.get_by_role("heading", name="The key of Rising")).to_be_visible()
        key = tab.page.get_by_role("dialog").locator(".join").inner_text()
        tab.confirm("Close")
        assert (log_in(here, player["key"]), log_in(here, key)) == (400, 200)
        tab.press("Role")
        tab.answer("Change", Role="player")
        tab.expect_confirmation("Rising is now player")
        refusal = {"error": "key_wanted", "message": "Enter the key that you sign in with."}
        tab.page.route("**/DashboardKick", lambda kick: kick.fulfill(status=401, json=refusal))
        tab.press("Kick")
        tab.answer("Kick")
        tab.expect_confirmation("Enter the key that you sign in with.")


@proves("POST DashboardRole", "who of the staff may do what")
def test_a_helper_reads_and_is_shown_nothing_that_is_not_allowed(
    browser: Browser, here: Host
) -> None:
    player = register(here.service, "Hal_9")
    with account_page(browser, here, "Hal_9") as tab:
        tab.press("Role")
        tab.answer("Change", Role="helper", Key=here.key)
        tab.expect_confirmation("Hal_9 is now helper")
    with visit(browser, here, "phone") as tab:
        page = tab.page
        tab.sign_in(player["key"])
        expect(page.locator("#who")).to_have_text("Hal_9 (helper)")
        tab.open_menu()
        links = page.locator("#nav").get_by_role("link")
        assert [*map(str.lower, links.all_inner_texts())] == [
            entry for entry in PAGES if entry not in ("invites", "backups", "settings", "log")
        ]
        for name in links.all_inner_texts():
            tab.go(name)
            tab.drawn()
            for act in page.locator("#content").get_by_role("button").all_inner_texts():
                assert not act or act in READS | CHOICES, (name, act)
        page.goto(f"{tab.address}/svc/dashboard#/invites")
        expect(page.locator("#content")).to_contain_text("Only an owner sees this page.")
        tab.picture("not-for-helpers")
        open_account(tab, "Ann_1")
        assert {*page.locator("#content").get_by_role("button").all_inner_texts()} <= READS
        tab.picture("account-of-a-helper")
        kick = {"Account": "Bertram", "Reason": "for fun"}
        head = {"x-svc-user-api-key": player["key"]}
        assert here.service.ask("POST", "/svc/api/DashboardKick", kick, head)[0] == 403
        tab.go("Audit")
        tries = page.get_by_role("row").filter(has_text="refused").filter(has_text="Hal_9")
        expect(tries).to_have_count(1)  # only that row: reading the page adds none
        expect(tries).to_contain_text("kick")


@proves("POST DashboardRole", "who of the staff may do what")
def test_a_demoted_moderator_must_sign_in_again(browser: Browser, here: Host) -> None:
    player = register(here.service, "Mo_der")
    role = {"Account": "Mo_der", "Role": "moderator"}
    here.admin("POST", "DashboardRole", role)
    with visit(browser, here) as tab:
        page = tab.page
        tab.sign_in(player["key"])
        open_account(tab, "Bertram")
        acts = {*page.locator("#content").get_by_role("button").all_inner_texts()} - READS
        assert acts == {"Kick", "Mute", "Ban"}
        here.admin("POST", "DashboardRole", role | {"Role": "helper"})
        tab.press("Mute")
        tab.answer("Mute")
        expect(page.locator("#says .bad")).to_contain_text("your role has changed")
        expect(page.get_by_role("alert")).to_contain_text("your role has changed")
        tab.sign_in(player["key"])
        open_account(tab, "Bertram")
        assert {*page.locator("#content").get_by_role("button").all_inner_texts()} <= READS


# slow: 50 s: a code of the second factor counts once: the next comes after thirty seconds at most
@proves("POST DashboardOwnKey", "POST DashboardSecondFactor", "GET DashboardAccess")
def test_a_dashboard_key_and_second_factor_are_needed_to_sign_in(
    browser: Browser, here: Host
) -> None:
    player = register(here.service, "Careful")
    here.admin("POST", "DashboardRole", {"Account": "Careful", "Role": "moderator"})
    with visit(browser, here) as tab:
        tab.sign_in(player["key"])
        tab.press("My access")
        tab.confirm("Create a dashboard key")
        tab.answer("Create", Key="UUK_another")
        expect(tab.fault()).not_to_be_empty()
        tab.answer("Create", Key=player["key"])
        expect(tab.page.get_by_role("heading", name="Your dashboard key")).to_be_visible()
        key = tab.page.get_by_role("dialog").locator(".join").inner_text()
        tab.confirm("Close")
        tab.press("My access")
        tab.confirm("Add a second factor")
        box = tab.page.get_by_role("dialog")
        expect(box.get_by_role("img")).to_be_visible()
        secret = box.locator(".join").inner_text()
        tab.picture("second-factor")
        tab.look_at_question()  # checked before the code is made, which is valid for half a minute
        used = code_of(secret)
        tab.answer("Add", Key=key, Current=used)
        tab.expect_confirmation("From now on, signing in requires a code")
        tab.press("Sign out")
        for offered, replies in (
            (player["key"], "separate dashboard key"),
            (key, "Enter the code"),
        ):
            tab.page.get_by_label("Account key").fill(offered)
            tab.press("Sign in")
            expect(tab.page.get_by_role("alert")).to_contain_text(replies)
        tab.page.get_by_label("Code from your authenticator app").fill(used)
        tab.press("Sign in")  # a used code is rejected
        expect(tab.page.get_by_role("alert")).to_contain_text("Enter the code")
        fresh = code_of(secret, 1)  # a clock may be half a minute ahead
        tab.page.get_by_label("Code from your authenticator app").fill(fresh)
        tab.press("Sign in")
        expect(tab.page.locator("#who")).to_have_text("Careful (moderator)")
        assert log_in(here, player["key"]) == 200  # the account can still play
        tab.press("My access")
        tab.confirm("Go back to the account key")
        tab.look_at_question()
        while (second := code_of(secret, 1)) == fresh:
            tab.page.wait_for_timeout(1_000)
        tab.answer("Use it", Key=key, Current=second)
        tab.expect_confirmation("The account key opens the dashboard again")
        tab.press("My access")
        expect(box).to_contain_text("Your account key also opens the dashboard.")
        tab.confirm("Remove the second factor")
        tab.look_at_question()
        while (last := code_of(secret, 1)) == second:
            tab.page.wait_for_timeout(1_000)
        tab.answer("Remove", Key=player["key"], Current=last)
        tab.expect_confirmation("From now on, signing in requires only the key")
        tab.press("Sign out")
        tab.page.get_by_label("Account key").fill(key)
        tab.press("Sign in")
        expect(tab.page.get_by_role("alert")).to_contain_text("does not know")
        tab.sign_in(player["key"])
        expect(tab.page.locator("#who")).to_have_text("Careful (moderator)")


def test_back_leads_to_the_same_search_and_names_are_links(browser: Browser, here: Host) -> None:
    comes_online(here, 0)
    with visit(browser, here) as tab:
        page = tab.page
        tab.sign_in(here.key)
        page.get_by_role("table", name="Players online").get_by_role("link", name="Ann_1").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Ann_1")
        open_account(tab, "Dragonfly_77")
        page.go_back()
        expect(page.get_by_label("Search accounts")).to_have_value("RAGONFLY_77")
        expect(page.locator("tbody").get_by_role("row")).to_have_count(1)
        page.get_by_label("Search accounts").fill("")
        page.get_by_role("button", name="Role", exact=True).click()
        expect(page.locator("tbody").get_by_role("row").first).to_contain_text("owner")
        page.get_by_role("button", name="Last seen", exact=True).click()
        expect(page.locator("tbody").get_by_role("row").last).to_contain_text("never")
        come_to_chat(here)
        tab.go("Chat")
        page.get_by_role("listitem").get_by_role("link", name="Bertram").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Bertram")
        tab.go("Guilds")
        page.get_by_role("row").filter(has_text="Lanterns").get_by_role("link").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Ann_1")


def test_the_log_is_asked_for_one_player(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        register(here.service, "Loud")
        tab.sign_in(here.key)
        tab.go("Log")
        lines = tab.page.get_by_role("log")
        tab.page.get_by_label("Filter by player").fill("Loud")
        tab.page.keyboard.press("Tab")
        expect(lines).to_contain_text("registered Loud")
        expect(lines).not_to_contain_text("Bertram")
        tab.page.get_by_label("Filter by player").fill("")
        expect(lines).not_to_contain_text("No lines match")
        tab.go("Moderation")
        tab.press("Announce")
        tab.answer("Announce", Text="soup")
        tab.expect_confirmation("Announced: soup")
        here.admin("GET", "DashboardSanctions")  # a request by somebody else who has the key
        tab.go("Log")
        replies = re.compile(r"POST /svc/api/DashboardAnnouncement .* page=([0-9a-f]{12})")
        expect(lines).to_contain_text(replies)
        mark = replies.findall(lines.inner_text())[-1]
        own = [text for text in lines.locator(".text").all_inner_texts() if mark in text]
        assert own and not [text for text in own if "GET /svc/" in text]
        others = lines.locator(".text").filter(has_text="GET /svc/api/DashboardSanctions")
        expect(others.last).to_contain_text(re.compile(r" by=UID-\S+$"))


def test_accounts_are_limited_to_staff_banned_or_muted(browser: Browser, here: Host) -> None:
    here.admin("POST", "DashboardMute", {"Account": "Eve", "Reason": "loud"})
    with visit(browser, here) as tab:
        page = tab.page
        tab.sign_in(here.key)
        tab.go("Accounts")
        rows = page.get_by_role("table", name="Accounts").locator("tbody tr")
        tab.press("Staff")
        expect(rows.filter(has_text="Olga")).to_have_count(1)
        expect(rows.filter(has_text="Ann_1")).to_have_count(0)
        tab.press("Muted")
        expect(rows).to_have_count(1)
        tab.picture("accounts-muted")
        rows.get_by_role("link", name="Eve").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Eve")
        page.go_back()
        expect(rows).to_have_count(1)
        muted = page.get_by_role("button", name="Muted", exact=True)
        expect(muted).to_have_attribute("aria-pressed", "true")
        here.admin("POST", "DashboardUnmute", {"Account": "Eve"})
        expect(page.get_by_text("No account matches.")).to_be_visible()
        tab.press("All")
        expect(rows.filter(has_text="Ann_1")).to_have_count(1)


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_a_full_chat_room_fits(browser: Browser, here: Host, size: str) -> None:
    chat, full = int(here.service.environ["CHAT_PORT"]), []
    for number in range(22):
        name = f"{size}_{number}"
        player = register(here.service, name)
        talker = Talker(chat, player["id"], name).log_in(player["token"])
        talker.join("General")
        full.append(talker)
    with visit(browser, here, size) as tab:
        tab.sign_in(here.key)
        tab.go("Chat")
        room = tab.page.get_by_role("listitem").filter(has_text="General")
        expect(room).to_contain_text(f"{size}_2")
        assert tab.page.evaluate(WIDER) == []
        assert room.evaluate(SPILLS) == []
        tab.picture("chat-full")
    for talker in full:
        talker.wire.close()
