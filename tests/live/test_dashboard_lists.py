"""The dashboard's lists in a browser: others' changes appear immediately, and the focus stays.

Real processes are needed because a real server pushes the changes to a page that is already open.
"""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.live.dashboard_page import Host, Visit, here, open_account, visit
from tests.live.real_browser import browser
from tests.support.processes import bearer, register
from tests.support.proves import proves

__all__ = ["browser", "here"]  # fixtures

pytestmark = pytest.mark.live


def row(tab: Visit, table: str, text: str) -> Locator:
    return tab.page.get_by_role("table", name=table).get_by_role("row").filter(has_text=text)


def stays(place: Locator, act: Callable[[], Any], then: Callable[[], Any]) -> None:
    """Assert that the element keeps the keyboard focus during another user's action."""
    place.focus()
    act()
    then()
    expect(place).to_be_focused()


# slow: a browser and a host, and what four lists show by themselves is waited for
@proves("GET DashboardEvents")
def test_changes_by_others_appear_at_once_and_keep_the_focus(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        tab.sign_in(here.key)

        tab.go("Accounts")
        bertram = tab.page.get_by_role("link", name="Bertram", exact=True)
        stays(
            bertram,
            lambda: register(here.service, "Aaron"),
            lambda: expect(row(tab, "Accounts", "Aaron")).to_have_count(1),
        )
        beat = {"map": "cora_jamima", "state": "island"}
        stays(
            bertram,
            lambda: here.call("POST", "/heartbeat", beat, **bearer(here.players[1])),
            lambda: expect(row(tab, "Accounts", "Bertram")).to_contain_text("Hunting"),
        )

        tab.go("Invites")
        copy = row(tab, "Invite codes", "OPEN-EVENING").get_by_role("button", name="Copy")
        code = ""

        def invite() -> None:
            nonlocal code
            code = here.admin("POST", "CreateInvite", {"uses": 3})["code"]

        stays(copy, invite, lambda: expect(row(tab, "Invite codes", code)).to_have_count(1))
        here.admin("DELETE", f"InviteCode/{code}")
        expect(row(tab, "Invite codes", code)).to_have_count(0)

        tab.go("Moderation")
        announce = tab.page.get_by_role("button", name="Announce", exact=True)
        stays(
            announce,
            lambda: here.admin("POST", "DashboardMute", {"Account": "Eve", "Reason": "loud"}),
            lambda: expect(row(tab, "Bans and mutes", "Eve")).to_contain_text("loud"),
        )
        unmute = row(tab, "Bans and mutes", "Eve").get_by_role("button", name="Unmute")
        stays(
            unmute,
            lambda: here.admin("POST", "DashboardMute", {"Account": "Cleo", "Reason": "song"}),
            lambda: expect(row(tab, "Bans and mutes", "Cleo")).to_have_count(1),
        )
        for name in ("Eve", "Cleo"):
            here.admin("POST", "DashboardUnmute", {"Account": name})
        expect(tab.page.get_by_text("Nobody is banned or muted.")).to_be_visible()

        tab.go("Audit")
        details = row(tab, "Audit log", "unmute").filter(has_text="Eve")
        stays(
            details.get_by_role("button", name="Details"),
            lambda: here.admin("POST", "DashboardKick", {"Account": "Falk", "Reason": "asleep"}),
            lambda: expect(row(tab, "Audit log", "asleep")).to_have_count(1),
        )
        first = tab.page.get_by_role("table", name="Audit log").locator("tbody tr").first
        expect(first).to_contain_text("asleep")

        tab.go("Guilds")
        leader = row(tab, "Guilds", "Lanterns").get_by_role("link")
        [second] = [entry for entry in here.admin("GET", "Guilds") if entry["name"] == "RedAxes"]
        stays(
            leader,
            lambda: here.admin("POST", "DisbandGuild", {"Guild": second["guildId"]}),
            lambda: expect(row(tab, "Guilds", "RedAxes")).to_have_count(0),
        )
        expect(tab.page.get_by_text("1 guild", exact=True)).to_be_visible()


@proves("GET DashboardEvents")
def test_an_account_page_shows_changes_at_once(browser: Browser, here: Host) -> None:
    ann = here.players[0]
    [entry] = here.call("GET", "/character", **bearer(ann))

    def save() -> None:
        body = {"characterId": entry["id"], "data": "{}", "updateVersion": 12}
        here.call("POST", "/character", body, **bearer(ann))

    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        open_account(tab, "Ann_1")
        versions = tab.page.get_by_role("table", name=f"Saves of {entry['name']}")
        tab.page.get_by_role("button", name="Show all 12").click()
        expect(versions.locator("tbody tr")).to_have_count(12)
        ninth = versions.get_by_role("row").filter(
            has=tab.page.get_by_role("cell", name="9", exact=True)
        )
        place = ninth.get_by_role("button", name="Changes")
        stays(place, save, lambda: expect(versions.locator("tbody tr")).to_have_count(13))
        expect(versions.locator("tbody tr").first).to_contain_text("12 now")
        hunt = {"map": "cora_jamima", "state": "island"}
        here.call("POST", "/heartbeat", hunt, **bearer(ann))
        expect(tab.fact("Now")).to_contain_text("Hunting")
        here.admin("POST", "DashboardMute", {"Account": "Ann_1", "Reason": "loud"})
        expect(tab.fact("Muted")).to_contain_text("loud")
        expect(tab.fact("Muted").get_by_role("link", name="Olga")).to_be_visible()
        here.admin("POST", "DashboardUnmute", {"Account": "Ann_1"})
        expect(tab.fact("Muted")).to_have_count(0)
        here.admin("POST", "DashboardMute", {"Account": "Ann_1", "Reason": "again"})
        tab.go("Moderation")
        reply = row(tab, "Bans and mutes", "again")
        expect(reply.get_by_role("link", name="Olga")).to_be_visible()
        here.admin("POST", "DashboardUnmute", {"Account": "Ann_1"})


@proves("GET DashboardEvents")
def test_a_search_and_expanded_rows_stay_while_the_list_changes(
    browser: Browser, here: Host
) -> None:
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Accounts")
        search = tab.page.get_by_label("Search accounts")
        search.fill("ann")
        rows = tab.page.get_by_role("table", name="Accounts").locator("tbody tr")
        expect(rows).to_have_count(1)
        stays(
            search,
            lambda: [register(here.service, name) for name in ("Annabel", "Zoe_1")],
            lambda: expect(rows).to_have_count(2),
        )
        expect(search).to_have_value("ann")


@proves("GET DashboardEvents")
def test_an_act_by_keyboard_whose_row_goes_leads_to_the_next_row(
    browser: Browser, here: Host
) -> None:
    names = ("Bertram", "Cleo")
    for name in names:
        here.admin("POST", "DashboardMute", {"Account": name})
    with visit(browser, here) as tab:
        keys = tab.page.keyboard
        tab.sign_in(here.key)
        tab.go("Moderation")
        rows = [row(tab, "Bans and mutes", name) for name in names]
        for entry in rows:
            expect(entry).to_have_count(1)
        rows[0].get_by_role("button", name="Unmute").focus()
        for name, place in (
            ("Bertram", rows[1].get_by_role("button", name="Unmute")),
            ("Cleo", tab.page.get_by_role("heading", name="Bans and mutes")),
        ):
            keys.press("Enter")
            expect(tab.page.get_by_role("dialog")).to_contain_text(f"Unmute {name}?")
            keys.press("Enter")  # the focus is in the dialog's first field
            tab.expect_confirmation(f"{name} may chat again")
            expect(row(tab, "Bans and mutes", name)).to_have_count(0)
            expect(place).to_be_focused()

        for kind in ("ring", "scarf"):
            request = {
                "UserId": here.players[5]["id"],
                "Entitlement": f"gift_{kind}",
                "Duration": 1,
            }
            here.admin("POST", "GrantEntitlement", request)
        open_account(tab, "Falk")
        scarf = row(tab, "Entitlements", "gift_scarf")
        gone = {"UserId": here.players[5]["id"], "Entitlement": "gift_ring"}
        stays(
            scarf.get_by_role("button", name="Revoke"),
            lambda: here.admin("POST", "RevokeEntitlement", gone),
            lambda: expect(row(tab, "Entitlements", "gift_ring")).to_have_count(0),
        )
        keys.press("Enter")
        expect(tab.page.get_by_role("dialog")).to_contain_text("Revoke gift_scarf?")
        tab.confirm("Revoke")
        tab.expect_confirmation("gift_scarf revoked from Falk")
        expect(scarf).to_have_count(0)
        place = tab.page.get_by_role("table", name="Entitlements").locator("tbody :focus")
        # of an entitlement that every account has from the beginning
        expect(place).to_have_text("Revoke")
