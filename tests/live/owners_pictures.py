"""The tour of ``docs/owners/first-evening.md``, which takes the page's pictures.

The owner has installed svcserver and nothing else. The owner answers the questions of
``svcctl up``, signs in to the dashboard and invites a friend. The friend opens the invite, plays,
and goes on a hunt. Each step is timed. The host uses the usual ports, including 443.
``tests/packages/empty_machine.py`` starts one step earlier, on a machine without svcserver, and
writes the times and pictures that the page shows.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field, frozen
from playwright.sync_api import Browser, Page, expect

from svcserver.players.requests import HUNTS
from tests.ctl.hosts import SVCCTL
from tests.live.players_host import COMMAND, GAME, launcher, link_of
from tests.live.players_page import Visit
from tests.live.real_browser import chromium, replace_text

SIZE = {"width": 1080, "height": 720}
PATIENCE_S = 240
HOST = "friday"
TIMEZONE = "Europe/Berlin"
NAME, OWNER, FRIEND = "Friday Hunts", "Olga", "Robin"
ANSWERS = f"public\n127.0.0.1\n{NAME}\n{OWNER}\n"
SIGN_IN = re.compile(r"(?m)^sign in +(\S+)$")
READY = re.compile(r"^Ctrl-C stops it;.*\n", re.MULTILINE)  # the last line of the card


@frozen
class Owner:
    """The host's machine and home folder, and the way to run svcctl there."""

    home: Path  # the path as this process sees it
    inside: str  # the path of the same folder on the owner's machine
    svcctl: tuple[str, ...] = (SVCCTL,)

    @property
    def host(self) -> Path:
        """Return the path of the host's folder as this process sees it."""
        return self.home / HOST

    def command(self, *words: str) -> list[str]:
        """Return the command line of ``svcctl`` with these arguments and the host's folder."""
        return [*self.svcctl, *words, f"{self.inside}/{HOST}"]


@define
class Tour:
    """The finished steps of the tour, with the duration of each step in seconds."""

    folder: Path
    steps: dict[str, float] = field(factory=dict)
    _begun: float = field(factory=time.monotonic, init=False)

    def step(self, name: str) -> None:
        """Record the time since the previous step under a name from ``tour_times.STEPS``."""
        now = time.monotonic()
        self.steps[name] = now - self._begun
        self._begun = now

    def take(self, page: Page, name: str) -> None:
        """Take one screenshot in which the host has a realistic public address."""
        page.mouse.move(0, 0)
        replace_text(page, [("127.0.0.1", "play.example.org")])
        page.screenshot(path=self.folder / f"{name}.png", animations="disabled")


@contextmanager
def up(owner: Owner, answers: str = "") -> Iterator[str]:
    """Run ``svcctl up`` until Ctrl-C; yield its output once all services run."""
    printed = owner.home / "card.txt"
    with printed.open("wb") as out:
        process = subprocess.Popen(
            owner.command("up"),
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=owner.home,
            env={"PATH": os.environ["PATH"], "HOME": owner.inside, "LANG": "C.UTF-8"},
        )
        assert process.stdin is not None
        process.stdin.write(answers.encode())
        process.stdin.close()
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not READY.search(printed.read_text("utf-8", "replace")):
                assert process.poll() is None, printed.read_text("utf-8", "replace")
                assert time.monotonic() < deadline, "the host is not ready"
                time.sleep(0.1)
            yield printed.read_text("utf-8", "replace")
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)


def put_game(owner: Owner) -> None:
    """Install a stand-in for the game's files, which friends download."""
    host = owner.host
    (host / "game").mkdir(exist_ok=True)
    of_owner = host.stat()
    files = dict.fromkeys(("game.py", "game.exe"), GAME.read_bytes())
    for name, data in (files | {"data.pak": os.urandom(4 << 20)}).items():
        file = host / "game" / name
        file.write_bytes(data)
        # on the empty machine, root writes the file for the owner
        os.chown(file, of_owner.st_uid, of_owner.st_gid)
    made = owner.command("content", "manifest", "--config")
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)


def sign_in(browser: Browser, card: str) -> Page:
    """Open the dashboard as the owner, by the link that ``svcctl up`` printed."""
    [link] = SIGN_IN.findall(card)
    page = browser.new_context(locale="en-GB", timezone_id=TIMEZONE, viewport=SIZE).new_page()
    page.goto(link)
    expect(page.get_by_role("table").or_(page.locator(".nothing")).first).to_be_visible()
    return page


def invite(page: Page, tour: Tour) -> str:
    """Create a join string for the friend in the dashboard."""
    page.get_by_role("link", name="Invites", exact=True).click()
    page.get_by_role("button", name="New invite").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Create").click()
    text = page.get_by_role("dialog").locator(".join")
    expect(text).to_contain_text("svc://join")
    result = text.inner_text()
    tour.take(page, "2-invite")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    return result


@contextmanager
def friend(browser: Browser, home: Path, join: str, tour: Tour) -> Iterator[Visit]:
    """Open the invite as a friend and play."""
    with launcher(home, "--print-link") as started:
        made = browser.new_context(locale="en-GB", viewport=SIZE)
        player = Visit(made.new_page(), "light", home)
        player.page.goto(link_of(started))
        player.join(join)
        player.register(FRIEND)
        player.download()
        tour.step("what-your-friend-does")
        player.set_command(f"{COMMAND} -hunt={HUNTS[0]}")
        player.page.get_by_text("Settings", exact=True).click()
        player.press("Play")
        player.reads("You are playing as")
        yield player
        player.press("End the game")
        made.close()


def evening(browser: Browser, owner: Owner, friends: Path, tour: Tour) -> None:
    """Run the tour from an installed svcserver to the first hunt."""
    with up(owner, ANSWERS):
        tour.step("make-the-host")
    put_game(owner)
    with up(owner) as card:
        tour.step("give-it-the-game")
        page = sign_in(browser, card)
        expect(page.get_by_text("is starting")).to_have_count(0, timeout=60_000)
        tour.take(page, "1-overview")
        tour.step("look-at-it")
        join = invite(page, tour)
        tour.step("invite-a-friend")
        with friend(browser, friends, join, tour):
            page.get_by_role("link", name="Overview", exact=True).click()
            feed = page.locator(".feed")
            expect(feed).to_contain_text(f"{FRIEND} began a hunt", timeout=60_000)
            instances = page.locator(".card").filter(has=page.get_by_text("Instances", exact=True))
            expect(instances.locator(".list")).to_contain_text("Hunt")
            tour.step("the-first-hunt")
            row = page.get_by_role("row").filter(has_text=FRIEND)
            # shown after the game's next heartbeat
            expect(row).to_contain_text("Hunting", timeout=60_000)
            # tall enough to show the first-evening checklist
            page.set_viewport_size({**SIZE, "height": 1040})
            tour.take(page, "3-first-hunt")
            page.set_viewport_size(SIZE)
            page.get_by_role("link", name=FRIEND).first.click()
            expect(page.get_by_role("heading", level=1)).to_have_text(FRIEND)
            tour.take(page, "4-friend")
        page.context.close()


def taken(folder: Path, owner: Owner | None = None) -> Tour:
    """Take the tour on this machine or on that of ``owner``; save the pictures in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, chromium() as browser:
        tour = Tour(folder)
        here = Owner(Path(work), work)
        evening(browser, owner or here, Path(work) / "friend", tour)
    return tour
