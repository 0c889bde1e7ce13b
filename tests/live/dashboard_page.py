"""The dashboard in a real browser with a populated metagame, for the live tests."""

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest
from attrs import define, field
from playwright.sync_api import Browser, Locator, expect

from svcserver.db.engine import database_url, make_engine
from svcserver.db.transaction import transact
from svcserver.edge.joining import LAUNCHER_FILE
from svcserver.kernel.settings import parse_env_file
from svcserver.metagame.owner.figures.feature import SqlFigures
from svcserver.metagame.owner.figures.rules import DAY_S, HOUR_S, FigureSpan, StoredSpan, start
from svcserver.metagame.owner.health.rules import Counts
from tests.chat.sockets import Talker
from tests.ctl.command import new_host, svcctl
from tests.live.real_browser import OF_COLOURS, ObservedPage
from tests.metagame.owner.dashboard.dialogs import DIALOGS
from tests.support.processes import Service, bearer, free_port, register

PAGES = (
    "overview",
    "health",
    "accounts",
    "invites",
    "guilds",
    "chat",
    "moderation",
    "game servers",
    "machines",
    "backups",
    "alerts",
    "settings",
    "audit",
    "log",
)
SIZES = {"desktop": (1280, 860), "phone": (390, 844)}
LOOKS = ("desktop-light", "phone-dark", "desktop-dark", "phone-light")
IN_MENU = ("My access", "Sign out")  # buttons that a phone keeps in the menu
DRAWN = """() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))
  .then(() => document.getAnimations().forEach((one) => one.finish()))"""
LATE = """(() => {
  const real = window.fetch;
  window.fetch = async (address, how) => {
    const reply = await real(address, how);
    const late = how.method === 'GET' && address.includes('%s');
    if (late) await new Promise((go) => setTimeout(go, 1500));
    return reply;
  };
})()"""
UNNAMED = """() => [...document.querySelectorAll('button, a, input, select')]
  .filter((one) => one.checkVisibility())
  .filter((one) => !(one.textContent.trim() || one.getAttribute('aria-label')
    || (one.id && document.querySelector(`label[for="${one.id}"]`))))
  .map((one) => one.outerHTML)"""
WIDER = """() => [document.documentElement, ...document.querySelectorAll('dialog, .tile')]
  .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.outerHTML.slice(0, 200))"""
TITLES = [re.compile(re.escape(title).replace(r"\*", ".*")).fullmatch for title in DIALOGS]
WORST = (20_000, 60_000, 9_650.5)  # event-loop lag in ms (two figures), and memory in MB
KIND = """() => [...document.querySelectorAll('dialog [id], dialog [role=alert]:not(:empty)')]
  .map((one) => one.id || 'refused').join()"""
LOOKED_OVER: set[tuple[int, str]] = set()  # the kinds of dialogs that axe has checked
NAMES = ("Ann_1", "Bertram", "Cleo", "Dragonfly_77", "Eve", "Falk")


@define
class Host:
    """A public host with some players and a running metagame."""

    service: Service
    folder: Path
    players: list[dict[str, str]] = field(factory=list)
    talkers: list[Talker] = field(factory=list)

    @property
    def key(self) -> str:
        """Return the owner's key."""
        return (self.folder / "owner.key").read_text().strip()

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send one request and assert that it succeeds."""
        status, reply = self.service.ask(method, path, body, headers)
        assert 200 <= status < 300, (path, status, reply)
        return orjson.loads(reply) if reply else None

    def admin(self, method: str, route: str, body: Any = None) -> Any:
        """Send one request as the owner and assert that it succeeds."""
        return self.call(method, f"/svc/api/{route}", body, **{"x-svc-user-api-key": self.key})


@contextmanager
def host(folder: Path) -> Iterator[Host]:
    """Start a host whose players have saves and are online, in a hunt, in guilds and in chat."""
    new_host(folder)
    built = folder.parent / LAUNCHER_FILE
    built.write_bytes(b"PK launcher")
    assert svcctl("content", "launcher", built, "--config", folder).status == 0
    port, chat = free_port(), free_port()
    environ = {
        "PORT": str(port),
        "CHAT_PORT": str(chat),
        "METRICS_PORT": str(free_port()),
        "REGISTRATION_MODE": "OPEN",
        "BACKEND_HEALTH": "1",
        "CHAT": "1",
        "GUILDS": "1",
        "SERVER_NAME": "Evening Hunters",
        "NODE_ENV": "",
    }
    arguments = ["--env-file", str(folder / "metagame.env")]
    service = Service("svc-metagame", folder, environ, port, arguments)
    service.start()
    here = Host(service, folder)
    try:
        here.players = [register(service, name) for name in NAMES]
        populate(here)
        yield here
    finally:
        for talker in here.talkers:
            talker.wire.close()
        service.stop()


def populate(here: Host) -> None:
    """Create data to show on every dashboard page."""
    maps = ("city_01_persistent", "city_01_persistent", "LoginMenu", "cora_jamima", "cora_jamima")
    for player, where in zip(here.players, maps, strict=False):
        here.call("POST", "/heartbeat", {"map": where, "state": "island"}, **bearer(player))
    ann = here.players[0]
    [entry] = here.call("GET", "/character", **bearer(ann))
    for version in range(1, 12):
        data = {"level": 10 + version, "bag": {"potions": version % 4}, "weapon": "axe"}
        if version > 6:
            data["weapon"] = "bow"
        save = {"characterId": entry["id"], "data": json.dumps(data), "updateVersion": version}
        here.call("POST", "/character", save, **bearer(ann))
    for flask in ("FL_HEALING_DEFAULT", "FL_SPEED"):
        slot = {"data": json.dumps({"flask": flask})}
        here.call("POST", f"/loadout/{ann['id']}/{entry['id']}/0", slot, **bearer(ann))
    server = parse_env_file((here.folder / "deploy.env").read_text())["METAGAME_API_KEY"]
    for player, name in zip(here.players[:2], ("Lanterns", "RedAxes"), strict=True):
        here.call(
            "POST", "/guild/validate", {"name": name, "nameplate": name[:3]}, **bearer(player)
        )
        body = {"leader_account_id": player["id"], "name": name, "nameplate": name[:3]}
        here.call("POST", "/guild", body, **{"x-svc-gameserver-apikey": server})
    here.admin("POST", "RegisterInviteCode", {"NewInviteCode": "OPEN-EVENING", "Uses": 5})
    come_to_chat(here)
    here.talkers[0].join("Trade")


def weeks(here: Host) -> None:
    """Write eight weeks of figures, with a gap of one day, to the database.

    The dashboard shows the highest figures of each time span. These figures are higher than those
    that the metagame measures during the tests, so the page shows the same in every run.
    """
    engine = make_engine(database_url(f"sqlite:///{here.folder / 'svc.db'}"))
    today = start(time.time(), DAY_S)
    counts = Counts(86_400, 40, 2, 9, [40_000, 40_000, 6_000, 400, *[0] * 8])
    days = [
        StoredSpan(
            DAY_S, today - DAY_S * ago, FigureSpan(counts, 17_280, 17_280 * 4, 9 + ago % 5, *WORST)
        )
        for ago in range(56)
        if ago != 20
    ]
    hours = [
        StoredSpan(
            HOUR_S, today - HOUR_S * ago, FigureSpan(counts, 720, 720 * (ago % 7), 9, *WORST)
        )
        for ago in range(1, 7 * 24)
    ]
    transact(engine, lambda tx: SqlFigures(tx).add([*days, *hours]))
    engine.dispose()


@define
class Visit(ObservedPage):
    """The owner's browser session on the dashboard.

    A look is a window size with a colour scheme. Before a page is opened or a dialog is confirmed,
    the session changes to the next of the ``looks``.
    """

    address: str
    looks: Sequence[str] = LOOKS

    @property
    def menu(self) -> Locator:
        """Return the button that shows the navigation on a phone."""
        return self.page.get_by_role("button", name="Menu", exact=True)

    def show_as(self, look: str) -> None:
        """Show the page in this look."""
        size, _, colours = look.partition("-")
        width, height = SIZES[size]
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme="dark" if colours == "dark" else "light")
        self.page.evaluate(DRAWN)  # charts change a frame later, and colours fade
        self.look = look

    def turn(self) -> None:
        """Show the page in the next look."""
        self.show_as(self.looks[(self.looks.index(self.look) + 1) % len(self.looks)])

    def each_look(self) -> Iterator[Sequence[str]]:
        """Show the page in each look, and then in the current look again.

        Yield the rules that axe checks in each look. In the first look of a size, these are all
        rules, shown as an empty list. The second look of that size differs only by its colours, so
        it yields only the rules about colours.
        """
        before, sizes = self.look, set[str]()
        for look in self.looks:
            self.show_as(look)
            size = look.partition("-")[0]
            yield OF_COLOURS if size in sizes else ()
            sizes.add(size)
        self.show_as(before)

    def check_fit(self, name: str) -> None:
        """Assert that the page and its dialog fit, and that each control has a name."""
        faults = self.page.evaluate(f"() => [({WIDER})(), ({UNNAMED})()]")
        assert faults == [[], []], f"{name}, {self.look}"

    def go(self, name: str) -> None:
        """Open a dashboard page from the navigation, and wait until it is shown."""
        self.turn()
        self.choose(name)
        expect(self.page.get_by_role("heading", level=1)).to_have_text(name)
        expect(self.page).to_have_title(re.compile(rf"{name} . Evening Hunters"))

    def choose(self, name: str) -> None:
        """Click a page's name in the navigation, which a phone keeps in a menu."""
        self.open_menu()
        self.page.locator("#nav").get_by_role("link", name=name, exact=True).click()

    def open_menu(self) -> None:
        """Open the menu of a phone."""
        expect(self.page.locator("#shell")).to_be_visible()
        if self.menu.is_visible() and self.menu.get_attribute("aria-expanded") == "false":
            self.menu.click()

    def press(self, name: str | re.Pattern[str]) -> None:
        """Click a button; on a phone, the button can be in the menu."""
        if name in IN_MENU:
            self.open_menu()
        super().press(name)

    def confirm(self, name: str) -> None:
        """Confirm the open dialog after an accessibility check."""
        self.look_at_question()
        self.page.get_by_role("dialog").get_by_role("button", name=name, exact=True).click()

    def look_at_question(self) -> None:
        """Check the open dialog, then show it in the next look.

        Axe checks a dialog in each look, but only the first of the dialogs with the same title and
        fields.
        """
        title = self.page.get_by_role("dialog").get_by_role("heading").first.inner_text()
        number = next((at for at, fits in enumerate(TITLES) if fits(title)), None)
        assert number is not None, f"{title} is not among DIALOGS"
        kind = number, self.page.evaluate(KIND)
        if kind not in LOOKED_OVER:
            LOOKED_OVER.add(kind)
            for rules in self.each_look():
                self.check_fit(title)
                self.look_over(f"{title}, {self.look}", "dialog", rules)
        self.turn()
        self.check_fit(title)

    def drawn(self) -> None:
        """Wait until the page shows its data."""
        expect(self.page.get_by_text("Waiting for the server.")).to_have_count(0)
        expect(self.page.locator("#content .card").first).to_be_visible()

    def fault(self) -> Locator:
        """Return the error in an open dialog."""
        return self.page.get_by_role("dialog").get_by_role("alert")

    def expect_confirmation(self, text: str) -> None:
        """Assert that the page confirms the action."""
        expect(self.page.locator("#says")).to_contain_text(text)

    def answer(self, confirm: str, **fields: str) -> None:
        """Find the dialog's fields by the beginnings of their labels, fill them in, and confirm."""
        box = self.page.get_by_role("dialog")
        for label, value in fields.items():
            place = box.locator("input, select").and_(box.get_by_label(re.compile(f"^{label}")))
            if place.evaluate("(one) => one.tagName") == "SELECT":
                place.select_option(value)
            else:
                place.fill(value)
        self.confirm(confirm)

    def fact(self, name: str) -> Locator:
        """Return the value of one fact that an account's page shows."""
        return self.page.locator(f"dt:text-is('{name}') + dd")

    def picture(self, name: str) -> None:
        """In each look, assert that the page fits and axe finds no fault; save a screenshot."""
        for rules in self.each_look():
            self.check_fit(name)
            self.keep(f"dashboard-{self.look}-{name}.png", rules)

    def late(self, read: str) -> None:
        """Delay the answers to reads that match ``read`` from now on.

        A delayed answer holds the data as it was when the request was sent.
        """
        self.page.add_init_script(LATE % read)
        self.page.reload()

    def sign_in(self, key: str) -> None:
        self.page.get_by_label("Account key").fill(key)
        self.press("Sign in")
        expect(self.page.locator("#server-name")).to_have_text("Evening Hunters")


@contextmanager
def visit(browser: Browser, here: Host, size: str = "", colours: str = "") -> Iterator[Visit]:
    """Open the dashboard; ``size`` and ``colours`` limit the looks in which it is shown.

    The test fails if the browser's console shows an error, or if the last page does not fit the
    window.
    """
    looks = [look for look in LOOKS if look.startswith(size) and look.endswith(colours)]
    address = f"http://127.0.0.1:{here.service.port}"
    # without transitions, because axe would measure colours in mid-change
    made = browser.new_context(locale="en-GB", timezone_id="Europe/Berlin", reduced_motion="reduce")
    tab = Visit(made.new_page(), looks[0], address, looks)
    with tab.watched(address):
        tab.show_as(tab.look)
        tab.page.goto(f"{address}/svc/dashboard")
        if any("NETWORK_CHANGED" in failure for failure in tab.failed):
            tab.page.reload()  # a test beside this one made or removed a network interface
        expect(tab.page.get_by_label("Account key")).to_be_visible()
        yield tab
        for _ in tab.each_look():
            tab.check_fit("the last page")


def come_to_chat(here: Host) -> None:
    """Reconnect four players, because chat removes clients that ignore pings for 150 seconds."""
    for talker in here.talkers:
        talker.wire.close()
    here.talkers.clear()
    chat = int(here.service.environ["CHAT_PORT"])
    for player, name in zip(here.players[:4], NAMES, strict=False):
        # the chat may not have noticed the end of the previous session yet
        talker = Talker(chat, player["id"], name, f"V2:Word:WIN::{uuid4().hex}")
        talker.log_in(player["token"]).join("General")
        here.talkers.append(talker)


def comes_online(here: Host, number: int, where: str = "city_01_persistent") -> None:
    """Send a heartbeat, which shows the account as online for ninety seconds."""
    beat = {"map": where, "state": "island"}
    here.call("POST", "/heartbeat", beat, **bearer(here.players[number]))


def log_in_again(here: Host, number: int) -> None:
    """Log a player in again after a forced log-out."""
    player = here.players[number]
    replies = here.call("POST", "/account/api/oauth/token", {"exchange_code": player["key"]})
    player["token"] = replies["access_token"]
    comes_online(here, number)
    here.talkers[number].wire.close()
    chat = int(here.service.environ["CHAT_PORT"])
    talker = Talker(chat, player["id"], NAMES[number]).log_in(player["token"])
    for room in ("General", "Trade"):
        talker.join(room)
    here.talkers[number] = talker


def open_account(tab: Visit, name: str) -> None:
    tab.go("Accounts")
    tab.page.get_by_label("Search accounts").fill(name[1:].upper())
    expect(tab.page.locator("tbody").get_by_role("row")).to_have_count(1)
    tab.page.get_by_role("link", name=name, exact=True).click()
    expect(tab.page.get_by_role("heading", level=1)).to_have_text(name)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Return the host for the tests of one file."""
    with host(tmp_path_factory.mktemp("dashboard") / "host") as running:
        yield running
