"""The launcher's page in a real browser, as the live tests see a player before it.

Pictures are left in ``_artefacts/launcher``, or where ``SVC_PICTURES`` says; those of the players'
pages are made by ``make pictures``.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.live.players_host import COMMAND, launcher, link_of
from tests.support.requirements import skip

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
PICTURES = Path(
    os.environ.get("SVC_PICTURES") or Path(__file__).parents[2] / "_artefacts" / "launcher"
)
expect.set_options(timeout=30_000)  # the machine may be busy
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1200, "height": 860}},
    "dark": {"viewport": {"width": 1200, "height": 860}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 780}},
}


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; skips the test where it is not installed."""
    if not Path(CHROMIUM).exists():
        raise skip("chromium", "chromium is not installed")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@contextmanager
def beside(browser: Browser, *switches: str) -> Iterator[Browser]:
    """Another browser of the same kind, with ``switches`` of its own."""
    started = browser.browser_type.launch(
        executable_path=CHROMIUM, args=["--no-sandbox", *switches]
    )
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

    def open_settings(self) -> None:
        """Unless they are."""
        if not self.page.get_by_label("The game's folder").is_visible():
            self.page.get_by_text("Settings", exact=True).click()

    def set_command(self, command: str = COMMAND) -> None:
        """How the simulated game is started."""
        self.open_settings()
        self.page.get_by_label("Command that starts the game").fill(command)
        self.page.get_by_label("Program in front of it").fill(sys.executable)
        self.press("Save")

    def set_folder(self, folder: Path) -> None:
        """Where the game's files go."""
        self.open_settings()
        self.page.get_by_label("The game's folder").fill(str(folder))
        self.press("Save")

    def set_limit(self, megabytes: float) -> None:
        """How fast it may download."""
        self.open_settings()
        self.page.get_by_label("Speed limit").fill(str(megabytes))
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
