"""The invites on the dashboard, in a real browser: who used them, expiry, and a printed sheet."""

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.live.dashboard_page import Host, Visit, here, visit
from tests.live.real_browser import browser
from tests.support.proves import proves

__all__ = ["browser", "here"]  # fixtures

pytestmark = pytest.mark.live

PRINT = "() => { window.print = () => { window.printing = true; }; }"


def row(tab: Visit, code: str) -> Locator:
    return tab.page.get_by_role("row").filter(has_text=code)


def register(here: Host, name: str, code: str) -> None:
    here.call("POST", "/svc/api/Register", {"Username": name, "InviteCode": code})


@proves("GET DashboardInvites", "POST DashboardInvites")
def test_invites_show_their_users_and_used_invites_are_collapsed(
    browser: Browser, here: Host
) -> None:
    here.admin("POST", "RegistrationStatus", {"RegistrationStatus": "INVITECODE"})
    made = {"Uses": 2, "Note": "<b>fair</b>", "Days": 7}
    [code] = here.admin("POST", "DashboardInvites", made)["codes"]
    [used] = here.admin("POST", "DashboardInvites", {"Note": "for one"})["codes"]
    guest = "Guest_1"
    register(here, guest, code)
    register(here, "Guest_2", used)
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Invites")
        active = row(tab, code)
        expect(active).to_contain_text("<b>fair</b>")
        expect(active).to_contain_text("1 of 2 uses")
        expect(active.get_by_role("link", name=guest)).to_be_visible()
        expect(row(tab, used)).to_have_count(0)
        tab.picture("invites-used-by")
        tab.page.get_by_role("button", name="Show ").click()
        expect(row(tab, used)).to_contain_text("used up")
        expect(row(tab, used).get_by_role("button", name="Share")).to_have_count(0)
        tab.picture("invites-unfolded")
        register(here, "Guest_3", code)
        expect(active).to_contain_text("used up")


def test_many_invites_are_made_and_printed_as_qr_codes(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        tab.page.evaluate(PRINT)
        tab.sign_in(here.key)
        tab.go("Invites")
        tab.press("New invite")
        tab.picture("invite-question")
        tab.answer("Create", Number="4", Uses="2", Expires="30", Note="fair")
        tab.expect_confirmation("4 invites created")
        box = tab.page.get_by_role("dialog")
        expect(box.get_by_role("img")).to_have_count(4)
        expect(box.get_by_text("Evening Hunters")).to_have_count(4)
        assert [url.rpartition("/")[2] for url in tab.requested if "Join" in url] == [
            "DashboardJoinStrings"
        ]
        tab.picture("invite-sheet")
        box.get_by_role("button", name="Print").click()
        tab.page.wait_for_function("window.printing")
        tab.page.emulate_media(media="print")
        assert tab.page.get_by_role("img", name="QR code of ").count() == 4
        expect(tab.page.get_by_role("button", name="Print")).to_have_count(0)
        text = tab.page.evaluate("document.body.innerText")
        assert text.count("svc://join?") == 4 and "Invites" not in text
        tab.page.emulate_media(media="screen")
        tab.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        expect(tab.page.locator(".printed")).to_have_count(0)
        tab.confirm("Close")
        listed = here.admin("GET", "DashboardInvites")["invites"]
        codes = [invite["code"] for invite in listed if invite["note"] == "fair"]
        for code in codes[:4]:
            assert text.count(code) == 2  # the sheet shows the code alone and in its join string
