"""The owner's page while its server is frozen, killed and started again, in a real browser.

Why processes: the server is stopped and killed under a browser that asks it.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, expect

from tests.live.dashboard_page import NAMES, Host, Visit, comes_online, here, open_account, visit
from tests.live.real_browser import browser
from tests.support.proves import proves

__all__ = ["browser", "here"]  # fixtures

pytestmark = pytest.mark.live

PATIENCE_MS = 40_000


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
def test_a_killed_server_comes_back_and_asks_to_sign_in(browser: Browser, here: Host) -> None:
    with visit(browser, here) as seen:
        seen.sign_in(here.key)
        seen.go("Chat")
        here.service.stop(signal.SIGKILL)
        says_that_it_is_away(seen)
        seen.page.get_by_role("link", name="Audit", exact=True).click()
        expect(seen.page.locator("#content")).to_contain_text("The server does not answer.")
        here.service.start()
        said = seen.page.locator("#sign-in-error")
        expect(said).to_contain_text("You are signed out", timeout=PATIENCE_MS)
        seen.sign_in(here.key)
        expect(seen.page.get_by_role("heading", level=1)).to_have_text("Audit")
        assert len(here.players) == len(NAMES)
