"""The dashboard's settings page in a real browser, and changes that a real restart applies."""

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.live.dashboard_page import Host, Visit, here, visit
from tests.live.real_browser import browser
from tests.support.proves import proves

__all__ = ["browser", "here"]  # fixtures

pytestmark = pytest.mark.live


def row(tab: Visit, name: str) -> Locator:
    code = tab.page.locator("code").get_by_text(name, exact=True)
    return tab.page.locator("tr").filter(has=code)


def press(place: Locator, name: str) -> None:
    place.get_by_role("button", name=name, exact=True).click()


@proves("GET DashboardSettings", "POST DashboardSetting")
def test_a_setting_is_changed_refused_and_reset(browser: Browser, here: Host) -> None:
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Settings")
        expect(row(tab, "SERVER_NAME")).to_contain_text("Evening Hunters")
        expect(row(tab, "SERVER_NAME").get_by_role("button")).to_have_count(0)
        expect(tab.page.get_by_text("No svc-stack runs these services")).to_be_visible()
        expect(row(tab, "METAGAME_API_KEY")).to_contain_text("set, hidden")

        members = row(tab, "GUILD_MAX_MEMBERS")
        press(members, "Change")
        tab.answer("Change", Value="many")
        expect(tab.fault()).to_have_text("GUILD_MAX_MEMBERS must be a whole number from 1 to 10000")
        tab.answer("Change", Value="42", Reason="big guilds")
        tab.expect_confirmation("GUILD_MAX_MEMBERS changed")
        expect(members).to_contain_text("42")
        expect(members).to_contain_text("changed here")
        relay = tab.page.locator(".settings").filter(has=tab.page.get_by_text("Launcher relay"))
        expect(relay).to_contain_text("relay.env. New invites contain the change.")
        expect(relay).to_contain_text("203.0.113.10")
        tab.page.get_by_label("Search settings").fill("who may register")
        expect(tab.page.locator("tbody tr")).to_have_count(1)
        press(row(tab, "REGISTRATION_MODE"), "Change")
        tab.answer("Change", Value="INVITECODE")
        tab.expect_confirmation("REGISTRATION_MODE changed")
        assert here.call("GET", "/svc/api/RegistrationStatus")["RegistrationMode"] == "INVITECODE"
        press(row(tab, "REGISTRATION_MODE"), "Reset")
        tab.confirm("Reset")
        tab.expect_confirmation("REGISTRATION_MODE reset")
        here.admin("POST", "RegistrationStatus", {"RegistrationStatus": "NONE"})
        expect(row(tab, "REGISTRATION_MODE")).to_contain_text("NONE")
        press(row(tab, "REGISTRATION_MODE"), "Reset")
        tab.confirm("Reset")
        expect(row(tab, "REGISTRATION_MODE")).to_contain_text("OPEN")
        assert here.call("GET", "/svc/api/RegistrationStatus")["RegistrationMode"] == "OPEN"
        tab.page.get_by_label("Search settings").fill("")
        tab.page.get_by_label("Show", exact=True).select_option("live")
        press(members, "Reset")
        tab.confirm("Reset")
        tab.expect_confirmation("GUILD_MAX_MEMBERS reset")
        expect(members).to_contain_text("100")
        tab.go("Audit")
        expect(tab.page.locator("tbody tr").filter(has_text="big guilds").first).to_be_visible()


# slow: a metagame is restarted
@proves("POST DashboardSetting")
def test_a_changed_setting_survives_a_restart_of_the_host(browser: Browser, here: Host) -> None:
    here.admin("POST", "DashboardSetting", {"Name": "GUILD_MAX_MEMBERS", "Value": "33"})
    here.service.stop()
    here.service.start()
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Settings")
        expect(row(tab, "GUILD_MAX_MEMBERS")).to_contain_text("33")
    here.admin("POST", "DashboardSetting", {"Name": "GUILD_MAX_MEMBERS"})
