"""The dashboard's pages about alerts and backups, in a real browser, with a whole running host.

Real processes are needed because the stack sends the alerts and makes the backups.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Locator, expect

from svcserver.kernel.settings import parse_env_file
from tests.live.dashboard_page import Host, Visit, visit
from tests.live.real_browser import browser
from tests.live.test_alerts import receiver
from tests.live.test_dashboard_machine import Told, heard, town
from tests.support.processes import eventually
from tests.support.proves import proves

__all__ = ["browser", "town"]  # fixtures

pytestmark = pytest.mark.live

LOOKS = [(size, colours) for size in ("desktop", "phone") for colours in ("light", "dark")]


def row(tab: Visit, table: str, text: str) -> Locator:
    return tab.page.get_by_role("table", name=table).get_by_role("row").filter(has_text=text)


def press(place: Locator, name: str) -> None:
    place.get_by_role("button", name=name, exact=True).click()


# slow: a stack; each dialog is checked with axe in each look
@pytest.mark.parametrize(("size", "colours"), LOOKS)
@proves(
    "POST DashboardAlertChannel", "DELETE DashboardAlertChannel/:name", "POST DashboardAlertTest"
)
def test_a_channel_is_added_tested_changed_and_removed(
    browser: Browser, town: tuple[Host, Told], size: str, colours: str
) -> None:
    here, _ = town
    name = f"{size}-{colours}"
    path = here.folder / f"alert-{name}.env"
    with receiver() as (url, deliveries), visit(browser, here, size, colours) as tab:
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
        tab.told(f"Channel {name} added")
        secret = tab.page.get_by_role("dialog").locator(".join").inner_text()
        tab.picture("alert-secret")
        tab.confirm("Close")
        assert parse_env_file(path.read_text())["SIGNING_SECRET"] == secret
        channel = row(tab, "Channels", name)
        expect(channel).to_contain_text("none yet")
        press(channel, "Test")
        tab.told(f"Test sent to {name}")
        expect(channel).to_contain_text("test sent")
        assert eventually(lambda: heard(deliveries, "test"))
        expect(channel).not_to_contain_text("test sent")
        expect(channel).to_contain_text("delivered")
        history = tab.page.get_by_role("list", name="Delivery history").get_by_role("listitem")
        expect(history.filter(has_text=name)).to_contain_text("the dashboard's test")
        tab.picture("alerts")
        press(channel, "Change")
        assert secret not in tab.page.content() and url not in tab.page.content()
        tab.answer("Change", Quiet="23:00-07:00")
        tab.told(f"Channel {name} changed")
        assert parse_env_file(path.read_text())["QUIET"] == "23:00-07:00"
        assert parse_env_file(path.read_text())["URL"] == url
        press(channel, "Remove")
        tab.answer("Remove", Reason="the end")
        tab.told(f"Channel {name} removed")
        expect(channel).to_have_count(0)
        assert not path.exists()
