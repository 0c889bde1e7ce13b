"""Confirmations on the dashboard appear only once the page shows the change.

Real processes are needed because the tests delay a real server's answers to an open page.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch

import pytest
from playwright.sync_api import Browser, Locator, Request, Route, expect

from tests.live.dashboard_page import Host, Visit, here, open_account, visit
from tests.live.real_browser import browser
from tests.support.proves import proves

__all__ = ["browser", "here"]  # fixtures

pytestmark = pytest.mark.live

# records, each time the page is drawn, whether it names somebody
WATCH = """(name) => {
    const place = document.querySelector('#content');
    window.named = [];
    new MutationObserver(() => window.named.push(place.innerText.includes(name)))
        .observe(place, { childList: true, subtree: true });
}"""


def row(tab: Visit, text: str) -> Locator:
    return tab.page.locator("tbody").get_by_role("row").filter(has_text=text)


def hush(tab: Visit) -> None:
    """Block the server's push updates, so that the page reads data only after its own actions."""
    tab.page.route("**/DashboardEvents?*", lambda _: None)


def is_read(request: Request, reads: str) -> bool:
    return request.method == "GET" and fnmatch(request.url, reads)


@contextmanager
def held(tab: Visit, reads: str) -> Iterator[list[Route]]:
    """Hold the GET requests that match ``reads`` until the ``with`` block ends.

    Yield the list of the requests that are held.
    """
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        if route.request.method == "GET":
            waiting.append(route)
        else:
            route.continue_()

    tab.page.route(reads, hold)
    try:
        yield waiting
    finally:
        tab.page.unroute(reads)
        for entry in waiting:
            entry.continue_()


@pytest.fixture(autouse=True)
def muted(here: Host) -> Iterator[None]:
    """Mute Eve before the test; end all mutes and bans after it."""
    here.admin("POST", "DashboardMute", {"Account": "Eve"})
    yield
    for entry in here.admin("GET", "DashboardSanctions")["sanctions"]:
        here.admin("POST", "DashboardUnmute", {"Account": entry["Username"]})


def unmute(tab: Visit) -> None:
    row(tab, "Eve").get_by_role("button", name="Unmute").click()
    tab.confirm("Unmute")


def invite(tab: Visit) -> None:
    tab.press("New invite")
    tab.answer("Create", Uses="17")


def mute(tab: Visit) -> None:
    tab.press("Mute")
    tab.answer("Mute", Reason="song")


# slow: the first of a file begins a host, and a browser
@pytest.mark.parametrize(
    ("page", "reads", "act", "says", "shown"),
    [
        ("Moderation", "**/DashboardSanctions", unmute, "Eve may chat again", "Nobody is banned"),
        ("Invites", "**/DashboardInvites", invite, "Invite created for 17 accounts", "17 uses"),
        ("Cleo", "**/DashboardPerson?*", mute, "Cleo is muted", "by Olga: song"),
    ],
    ids=["an act", "a dialog that acts", "an account"],
)
@proves("the dashboard says what was done when it shows it")
def test_an_action_is_confirmed_once_the_page_shows_it(
    browser: Browser,
    here: Host,
    page: str,
    reads: str,
    act: Callable[[Visit], None],
    says: str,
    shown: str,
) -> None:
    with visit(browser, here) as tab:
        hush(tab)
        tab.sign_in(here.key)
        if page == "Cleo":
            open_account(tab, page)
        else:
            tab.go(page)
        expect(tab.page.locator("#content .card").first).to_be_visible()
        with held(tab, reads):
            with tab.page.expect_request(lambda request: is_read(request, reads)):
                act(tab)  # the action is done, and the list has been requested
            assert says not in tab.page.locator("#says").inner_text()
        tab.expect_confirmation(says)
        # the page already shows the change, so the test does not wait
        assert shown in tab.page.locator("#content").inner_text()


@proves("the dashboard says what was done when it shows it")
def test_an_action_is_confirmed_though_its_list_cannot_be_read(
    browser: Browser, here: Host
) -> None:
    with visit(browser, here) as tab:
        hush(tab)
        tab.sign_in(here.key)
        tab.go("Moderation")
        expect(row(tab, "Eve")).to_have_count(1)
        tab.page.route("**/DashboardSanctions", lambda entry: entry.abort())
        unmute(tab)
        tab.expect_confirmation("Eve may chat again")
        expect(tab.page.locator("#says .bad")).to_have_count(0)
        expect(tab.page.locator("#away")).to_be_visible()  # the page shows old data, and says so
        tab.page.unroute("**/DashboardSanctions")
        tab.page.unroute("**/DashboardEvents?*")
        expect(row(tab, "Eve")).to_have_count(0)  # as soon as the page receives the event
        expect(tab.page.locator("#away")).to_be_hidden()


# slow: a list that comes late, and another after it
@proves("the dashboard says what was done when it shows it")
def test_an_older_list_never_replaces_a_newer_list(browser: Browser, here: Host) -> None:
    stored: list[tuple[Route, bytes]] = []

    def keep(route: Route) -> None:
        """Fetch the first answer now, but keep it until the test delivers it."""
        if stored:
            route.continue_()
        else:
            stored.append((route, route.fetch().body()))

    with visit(browser, here) as tab:
        page = tab.page
        tab.sign_in(here.key)
        tab.go("Moderation")
        expect(row(tab, "Eve")).to_have_count(1)
        page.evaluate(WATCH, "Eve")
        page.route("**/DashboardSanctions", keep)
        here.admin(
            "POST", "DashboardMute", {"Account": "Cleo"}
        )  # the page receives an event and reads the list again
        while not stored:
            page.wait_for_timeout(50)
        with page.expect_response("**/DashboardUnmute"):
            unmute(tab)
        # time in which a page that ignored the order would draw old data
        page.wait_for_timeout(1_000)
        [(older, body)] = stored
        older.fulfill(body=body, content_type="application/json")
        tab.expect_confirmation("Eve may chat again")
        assert row(tab, "Eve").count() == 0
        here.admin("POST", "DashboardMute", {"Account": "Falk"})
        expect(row(tab, "Falk")).to_have_count(1)
        named = page.evaluate("window.named")
        assert named == sorted(named, reverse=True), "who was let go came back"
