"""The launcher in a real browser, from an invite to playing, against real hosts.

Pictures for docs/players are left in ``_artefacts/launcher``.

Why processes: a browser, a game that is started, hosts that restart.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from svcserver.launcher import words
from tests.ctl.hosts import run
from tests.live.players_host import COMMAND, invite, launcher, link_of, players_host, running
from tests.support.processes import eventually
from tests.support.requirements import skip

pytestmark = pytest.mark.live

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
PICTURES = Path(__file__).parents[2] / "_artefacts" / "launcher"
expect.set_options(timeout=30_000)  # the machine may be busy
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1200, "height": 860}},
    "dark": {"viewport": {"width": 1200, "height": 860}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 780}},
}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = players_host(tmp_path_factory.mktemp("host") / "host", "Friday Hunts")
    with running(made):
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        raise skip("chromium", "chromium is not installed")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@define
class Visit:
    """A player before the launcher's page."""

    page: Page
    home: Path
    look: str
    faults: list[str] = field(factory=list)
    asked: list[str] = field(factory=list)

    def press(self, name: str | re.Pattern[str]) -> None:
        """A button."""
        exact = isinstance(name, str)
        self.page.get_by_role("button", name=name, exact=exact).first.click()

    def reads(self, sentence: str) -> None:
        """The player reads it."""
        expect(self.page.locator("main")).to_contain_text(sentence)

    def join(self, text: str) -> None:
        """Paste an invite."""
        self.page.get_by_label("Your invite").fill(text)
        self.press("Open the invite")

    def register(self, name: str) -> None:
        """Trust the host, choose a name."""
        self.press("They match, go on")
        self.page.get_by_label("Your name on this host").fill(name)
        self.press("Make my account")

    def download(self) -> None:
        """All of the game."""
        self.press(re.compile("^Download"))
        expect(self.page.get_by_role("button", name="Play")).to_be_visible()

    def set_command(self, command: str = COMMAND) -> None:
        """How the simulated game is started."""
        self.page.get_by_text("Settings", exact=True).click()
        self.page.get_by_label("Command that starts the game").fill(command)
        self.page.get_by_label("Program in front of it").fill(sys.executable)
        self.press("Save")

    def picture(self, name: str) -> None:
        """Keep how it looks; nobody may be kept from using it."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}-{self.look}.png", full_page=True)
        found = Axe().run(self.page)
        assert found.violations_count == 0, found.generate_report()

    @property
    def game(self) -> Path:
        """Where the game's files are."""
        [folder] = (self.home / "launcher" / "games").iterdir()
        return folder


@contextmanager
def visit(browser: Browser, home: Path, look: str = "light", *words: str) -> Iterator[Visit]:
    """A launcher with a clean home, and its page; a fault in the console fails the test."""
    with launcher(home, "--print-link", *words) as process:
        link = link_of(process)
        made = browser.new_context(locale="en-GB", **LOOKS[look])
        page = made.new_page()
        page.set_default_timeout(20_000)
        seen = Visit(page, home, look)
        page.on("console", lambda m: seen.faults.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda why: seen.faults.append(str(why)))
        page.on("request", lambda sent: seen.asked.append(sent.url))
        page.goto(link)
        try:
            yield seen
        finally:
            made.close()
    own = link.partition("#")[0]
    assert [one for one in seen.faults if "Failed to load resource" not in one] == []
    assert [url for url in seen.asked if not url.startswith((own, f"blob:{own}"))] == []


@pytest.mark.parametrize("look", LOOKS)
def test_from_an_invite_to_playing(browser: Browser, host: Path, tmp_path: Path, look: str) -> None:
    with visit(browser, tmp_path, look) as seen:
        seen.picture("1-invite")
        seen.join(invite(host))
        seen.reads("Friday Hunts")
        assert seen.page.locator(".words li").count() == 8
        seen.picture("2-words")
        seen.press("They match, go on")
        name = seen.page.get_by_label("Your name on this host")
        name.fill(f"Bo_{look}")
        seen.picture("3-name")
        seen.press("Make my account")
        expect(seen.page.get_by_role("button", name=re.compile("^Download"))).to_be_visible()
        expect(seen.page.locator("img.picture")).to_be_visible()
        seen.picture("4-download")
        seen.download()
        seen.reads("Hunt on Friday")
        seen.set_command()
        seen.press("Play")
        seen.reads(f"You are playing as Bo_{look}")
        told = seen.game / "played.json"
        eventually(told.exists)
        expect(seen.page.locator(".people")).to_contain_text(f"Bo_{look}", timeout=30_000)
        seen.picture("5-playing")
        key = json.loads((seen.home / "launcher/state/keys.json").read_text()).popitem()[1]
        assert key not in seen.page.content()
        seen.press("End the game")
        expect(seen.page.get_by_role("button", name="Play")).to_be_visible()
        logs = (seen.home / "launcher/state/launcher.log").read_text()
        assert key not in logs


def test_what_goes_wrong_on_the_way_in_is_told(
    browser: Browser, host: Path, tmp_path: Path
) -> None:
    run("account", "create", "Taken_1", "--config", host)
    with visit(browser, tmp_path) as seen:
        seen.join("svc://join?v=2&mode=public")
        seen.reads("The invite names no usable host.")
        text = invite(host)
        wrong = re.sub(r"fp=[0-9a-f]{64}", "fp=" + "ab" * 32, text)
        seen.join(wrong)
        seen.reads(words.WRONG_CERTIFICATE)
        seen.picture("6-wrong-certificate")
        seen.press("+ Another host")
        seen.join(text)
        seen.register("Taken_1")
        seen.reads(words.NAME_TAKEN)
        seen.page.get_by_label("Your name on this host").fill("Free_1")
        seen.press("Make my account")
        expect(seen.page.get_by_role("button", name=re.compile("^Download"))).to_be_visible()


def test_a_damaged_file_is_repaired_and_nothing_else_fetched(
    browser: Browser, host: Path, tmp_path: Path
) -> None:
    with visit(browser, tmp_path, "light", invite(host)) as seen:
        seen.register("Repair_1")
        seen.download()
        whole = (seen.game / "data" / "part 3.bin").read_bytes()
        (seen.game / "data" / "part 3.bin").write_bytes(b"x" + whole[1:])
        seen.press("Repair")
        seen.reads(words.DAMAGED_ONE.format(path="data/part 3.bin"))
        seen.press(re.compile(r"^Repair \(20 KB\)"))
        expect(seen.page.get_by_role("button", name="Play")).to_be_visible()
        assert (seen.game / "data" / "part 3.bin").read_bytes() == whole


def test_a_page_of_another_origin_gets_nothing(browser: Browser, tmp_path: Path) -> None:
    with launcher(tmp_path, "--print-link") as process:
        link = link_of(process)
        own = link.partition("#")[0]
        made = browser.new_context()
        page = made.new_page()
        page.goto(own)
        expect(page.locator("main")).to_contain_text("its link works once")
        page.goto("data:text/html,<p>elsewhere")
        asking = """async (url) => {
            try { const got = await fetch(url); return `answered ${got.status}`; }
            catch (why) { return "refused"; }
        }"""
        assert page.evaluate(asking, own + "api/state") == "refused"
        posting = """async (url) => {
            try { await fetch(url, {method: "POST", mode: "no-cors", body: "{}"}); return "sent"; }
            catch (why) { return "refused"; }
        }"""
        page.evaluate(posting, own + "api/join")
        made.close()
    assert not (tmp_path / "launcher/state/hosts.json").exists()


def test_two_hosts_and_one_that_restarts(browser: Browser, host: Path, tmp_path: Path) -> None:
    second = players_host(tmp_path / "second", "Sunday Hunts")
    with visit(browser, tmp_path / "home") as seen:
        with running(second):
            seen.join(invite(second))
            seen.register("Both_1")
            seen.download()
            seen.press("+ Another host")
            seen.join(invite(host))
            seen.register("Both_1")
            expect(seen.page.get_by_role("button", name=re.compile("^Download"))).to_be_visible()
            tabs = seen.page.get_by_role("navigation").get_by_role("button")
            expect(tabs).to_have_count(3)
        seen.press("Sunday Hunts")
        expect(seen.page.locator("main")).to_contain_text(words.UNREACHABLE, timeout=30_000)
        seen.press("Play")
        seen.reads(words.UNREACHABLE)
        seen.picture("7-unreachable")
        with running(second):
            expect(seen.page.locator("main")).to_contain_text("online", timeout=40_000)
            expect(seen.page.locator("main")).not_to_contain_text(words.UNREACHABLE)
