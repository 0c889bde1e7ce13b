"""Take the pictures of ``docs/players`` (``make pictures``): the real page and a real host.

    python -m tests.live.players_pictures [FOLDER]

The program creates a host and a player, and removes both afterwards. It replaces text that differs
between machines, such as addresses and folders, by typical values.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from attrs import frozen
from playwright.sync_api import Browser, Page, expect

from svcserver.launcher.keystore import AS_ASKED, IN_STORE
from svcserver.launcher.words import NAME_FREE
from tests.live.players_friends import Friend
from tests.live.players_host import (
    COMMAND,
    bitmap,
    invite,
    launcher,
    link_of,
    players_host,
    running,
)
from tests.live.players_page import LOOKS, Visit
from tests.live.real_browser import chromium, replace_text

FOLDER = Path(__file__).parents[2] / "docs" / "players" / "pictures"
WIDE, NARROW = {"width": 880, "height": 700}, {"width": 390, "height": 780}
SIZES = {"light": WIDE, "dark": WIDE, "phone": NARROW}
NAMES = {"light": "Robin", "dark": "Kim_7", "phone": "Juno"}
GUILDS = {"light": "NightOwls", "dark": "RedAxes", "phone": "Lanterns"}
HUNT = "CR19_PlayerHunt_Patrol_Flame"
LAST = "5-playing"
HERO_PX = 512  # down to where the news begins
NEWS = [
    {
        "date": "2026-11-20T18:00:00Z",
        "title": "Hunt on Friday",
        "body": "We meet in the city at eight. Bring potions: the big one is back.",
    },
    {
        "date": "2026-11-12T18:00:00Z",
        "title": "The host has moved",
        "body": "It is in Ann's cellar now, and twice as fast. You need to do nothing.",
    },
]


def evening(width: int = 1200, height: int = 420) -> bytes:
    """Draw hills under an evening sky in few colours, so that screenshots stay small."""
    hills = [
        ((52, 78, 98), 0.52, 90.0, 0.11),
        ((36, 60, 76), 0.64, 61.0, 0.09),
        ((20, 38, 50), 0.80, 47.0, 0.07),
    ]

    def ridge(x: int, middle: float, step: float, rise: float) -> float:
        wave = math.sin(x / step) + 0.5 * math.sin(x / step * 2.3 + 1) + 0.2 * math.sin(x / 9)
        return height * (middle - rise * wave)

    def colour(x: int, y: int) -> tuple[int, int, int]:
        result = (226 - y // 30 * 9, 168 - y // 30 * 8, 118 - y // 30 * 3)
        if math.hypot(x - width * 0.72, y - height * 0.36) < height * 0.11:
            result = (250, 222, 168)
        for hill, middle, step, rise in hills:
            if y > ridge(x, middle, step, rise):
                result = hill
        return result

    return bitmap(colour, width, height)


@frozen
class Shot:
    """Screenshots of one player's page in one look, such as dark or phone."""

    page: Page
    look: str
    folder: Path
    replaced: list[tuple[str, str]]

    def take(self, name: str, height: int = 0) -> None:
        """Take a screenshot from the top of the page down to its end or to a given height."""
        if self.look == "phone" and name != LAST:
            return  # one picture is enough to show that the page fits
        self.page.mouse.move(0, 0)
        self.page.evaluate("document.activeElement?.blur()")
        replace_text(self.page, self.replaced)
        size = SIZES[self.look]
        whole = self.page.evaluate(
            "scrollTo(0, 0), document.querySelector('.foot').getBoundingClientRect().bottom"
        )
        self.page.screenshot(
            path=self.folder / f"{name}-{self.look}.png",
            animations="disabled",
            full_page=True,
            clip={"x": 0, "y": 0, "width": size["width"], "height": height or whole + 24},
        )


@contextmanager
def host(folder: Path) -> Iterator[Path]:
    """Run a host with news and a picture."""
    made = players_host(folder / "host", "Friday Hunts", big=24 << 20)
    (made / "branding" / "evening.png").write_bytes(evening())
    (made / "news.json").write_text(json.dumps(NEWS))
    with running(made):
        yield made


def walk(browser: Browser, ann: Friend, home: Path, look: str, folder: Path) -> None:
    """Go through all steps from the invite to playing, with a screenshot of each step."""
    text = invite(ann.host)
    port = re.findall(r"port=(\d+)", text)[0]
    shown = [
        (f"127.0.0.1:{port}", "play.example.org"),
        (str(home / "launcher" / "games"), "/home/bo/games"),
        (f"127-0-0-1-{port}", "play-example-org"),
        (AS_ASKED, IN_STORE),
        (f" This is svc-launcher {version('svcserver')}.", ""),
    ]
    with launcher(home, "--print-link") as started:
        made = browser.new_context(locale="en-GB", **{**LOOKS[look], "viewport": SIZES[look]})
        page = made.new_page()
        page.goto(link_of(started))
        player, shot = Visit(page, look, home), Shot(page, look, folder, shown)
        join(player, shot, text)
        expect(page.get_by_role("button", name=re.compile("^Download"))).to_be_visible()
        expect(page.locator("img.picture")).to_be_visible()
        player.set_limit(3.0)
        page.get_by_text("Settings", exact=True).click()
        player.press(re.compile("^Download"))
        expect(page.locator(".bar p")).to_contain_text("seconds left")
        page.wait_for_timeout(3000)  # some of the download has arrived
        shot.take("4-download", HERO_PX)
        [key] = json.loads((home / "launcher/state/keys.json").read_text()).values()
        me = Friend(ann.host, NAMES[look], key)
        me.meets(ann)
        me.has_been_about(GUILDS[look], HUNT)
        ann.beat("city")
        play(player, shot)
        made.close()


def join(player: Visit, shot: Shot, text: str) -> None:
    """Paste the invite, confirm the host's words and choose a name."""
    page = player.page
    example = re.sub(r"host=[^&]*&port=\d+", "host=play.example.org&port=443", text)
    page.get_by_label("Your invite").fill(example)
    shot.take("1-invite")
    page.get_by_label("Your invite").fill(text)
    player.press("Open the invite")
    player.reads("These words stand for")
    shot.take("2-words")
    player.press("They match, go on")
    page.get_by_label("Your name on this host").fill(NAMES[shot.look])
    player.reads(NAME_FREE)
    shot.take("3-name")
    player.press("Make my account")


def play(player: Visit, shot: Shot) -> None:
    """Wait for the files, start the game, and look around."""
    page = player.page
    expect(page.get_by_role("button", name="Play")).to_be_visible(timeout=60_000)
    player.set_command(COMMAND)
    page.get_by_text("Settings", exact=True).click()
    player.press("Play")
    player.reads("You are playing as")
    expect(page.locator(".people")).to_contain_text(NAMES[shot.look], timeout=60_000)
    hunter = page.get_by_role("region", name="My hunter")
    # the launcher asks once a minute
    expect(hunter).to_contain_text("Blaze Patrol", timeout=150_000)
    hunter.get_by_text("Characters and their saves").click()
    shot.take(LAST)
    player.press("End the game")


def main() -> None:
    """Take all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, host(Path(work)) as made, chromium() as browser:
        ann = Friend(made, "Ann")
        for look in LOOKS:
            walk(browser, ann, Path(work) / look, look, folder)
    print(f"the pictures are in {folder}")


if __name__ == "__main__":
    main()
