"""The dashboard of a new host on which nobody has played, in a real browser.

Real processes are needed because the browser is a process that keeps sending requests while a
test waits.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.ctl.command import new_host
from tests.live.dashboard_page import PAGES, Host, visit
from tests.live.real_browser import browser
from tests.support.processes import Service, free_port
from tests.support.proves import proves

__all__ = ["browser"]  # fixture

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Run a metagame without players."""
    folder = new_host(tmp_path_factory.mktemp("dashboard") / "host")
    port = free_port()
    environ = {
        "PORT": str(port),
        "METRICS_PORT": str(free_port()),
        "CHAT": "0",
        "SERVER_NAME": "Evening Hunters",
    }
    arguments = ["--env-file", str(folder / "metagame.env")]
    service = Service("svc-metagame", folder, environ, port, arguments)
    service.start()
    try:
        yield Host(service, folder)
    finally:
        service.stop()


@proves("GET DashboardChecklist")
def test_an_empty_host_lists_the_remaining_steps(browser: Browser, empty: Host) -> None:
    with visit(browser, empty) as tab:
        tab.sign_in(empty.key)
        card = tab.page.locator(".card").filter(has=tab.page.get_by_text("First evening"))
        files = card.get_by_role("listitem").filter(has_text="Game files")
        expect(files).to_contain_text("to do")
        expect(files).to_contain_text("svcctl content manifest")
        link = "#/settings?text=CONTENT_GAME_DIR"
        expect(files.get_by_role("link")).to_have_attribute("href", link)
        expect(card).to_contain_text("of 7 done")
        tab.picture("checklist")
        manifest = empty.folder / "manifest.json"
        before = manifest.read_bytes()
        manifest.write_bytes(b'{"files":[{"path":"game.exe"}]}')
        try:
            tab.press("Check again")
            expect(files).to_contain_text("Launchers can download the game.")
            expect(files).not_to_contain_text("to do")
        finally:
            manifest.write_bytes(before)
        tab.press("Hide")
        expect(card.get_by_role("listitem")).to_have_count(0)
        tab.page.reload()
        expect(card).to_contain_text("of 7 done")
        expect(card.get_by_role("listitem")).to_have_count(0)
        tab.picture("checklist-hidden")
        tab.press("Show")
        expect(card.get_by_role("listitem")).to_have_count(7)
        tab.page.reload()
        expect(card.get_by_role("listitem")).to_have_count(7)


def test_quick_changes_of_the_page_are_never_refused(browser: Browser, empty: Host) -> None:
    with visit(browser, empty) as tab:
        tab.sign_in(empty.key)
        refused: list[str] = []
        tab.page.on(
            "response", lambda reply: refused.append(reply.url) if reply.status == 503 else None
        )
        for name in PAGES * 3:
            tab.go(name.capitalize())
            tab.drawn()
        assert refused == []
