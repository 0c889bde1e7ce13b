"""The launcher's page in a real browser, as a player sees it.

The tests save screenshots in the folder that ``SVC_PICTURES`` names, if it is set.
``make pictures`` takes the pictures of the players' documentation.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define
from playwright.sync_api import Browser, expect

from tests.live.players_host import COMMAND, launcher, link_of, runner, shown
from tests.live.real_browser import ObservedPage

LOOKED_MS = 120_000  # the launcher looks at its hosts every fifteen seconds, and downloads
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1200, "height": 860}},
    "dark": {"viewport": {"width": 1200, "height": 860}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 780}},
}


@define
class Visit(ObservedPage):
    """A player's browser session on the launcher's page."""

    home: Path

    def reads(self, sentence: str) -> None:
        """Assert that the page shows this text."""
        expect(self.page.locator("main")).to_contain_text(sentence)

    def rounds(self) -> None:
        """Wait until the page has polled its state twice, which redraws the page."""
        for _ in range(2):
            with self.page.expect_response(re.compile("/api/state$")):
                continue

    def join(self, text: str) -> None:
        """Paste an invite."""
        self.page.get_by_label("Your invite").fill(text)
        self.press("Open the invite")

    def bring(self, file: Path) -> None:
        """Choose the file of a key that the player used on another PC."""
        chooser = self.page.get_by_label("Key file of another PC")
        if not chooser.is_visible():
            self.page.get_by_text("I have played there before, on another PC").click()
        chooser.set_input_files(file)
        self.press("Bring my key")

    def register(self, name: str) -> None:
        """Trust the host and choose a name."""
        self.press("They match, go on")
        self.page.get_by_label("Your name on this host").fill(name)
        self.press("Make my account")

    def download(self) -> None:
        """Download the whole game."""
        self.press(re.compile("^Download"))
        expect(self.page.get_by_role("button", name="Play")).to_be_visible(timeout=LOOKED_MS)

    def open_settings(self) -> None:
        """Open the settings unless they are already open."""
        if not self.page.get_by_label("The game's folder").is_visible():
            self.page.get_by_text("Settings", exact=True).click()

    def set_command(self, command: str = COMMAND) -> None:
        """Set the command that starts the simulated game."""
        self.open_settings()
        self.page.get_by_label("Command that starts the game").fill(command)
        self.page.get_by_label("Program that runs the game").fill(runner())
        self.press("Save")

    def set_folder(self, folder: Path) -> None:
        """Choose the folder for the game's files."""
        self.open_settings()
        self.page.get_by_label("The game's folder").fill(shown(folder))
        self.press("Save")

    def set_limit(self, megabytes: float) -> None:
        """Set the download speed limit."""
        self.open_settings()
        self.page.get_by_label("Speed limit").fill(str(megabytes))
        self.press("Save")

    def picture(self, name: str) -> None:
        """Check the page's accessibility, and save a screenshot of it."""
        self.keep(f"launcher-{name}-{self.look}.png", whole=True)

    @property
    def game(self) -> Path:
        """Return the folder of the game's files."""
        [folder] = (self.home / "launcher" / "games").iterdir()
        return folder


@contextmanager
def visit(browser: Browser, home: Path, look: str = "light", *words: str) -> Iterator[Visit]:
    """Run a launcher with a new home folder and open its page; fail on console errors."""
    with launcher(home, "--print-link", *words) as started:
        link = link_of(started)
        own = link.partition("#")[0]
        made = browser.new_context(locale="en-GB", **LOOKS[look])
        tab = Visit(made.new_page(), look, home)
        with tab.watched(own, f"blob:{own}"):
            tab.page.goto(link)
            expect(tab.page.get_by_role("heading", level=1)).to_be_visible()
            yield tab
