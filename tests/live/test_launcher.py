"""The launcher in a real browser, from an invite to playing, against real hosts.

Real processes are needed because the tests use a browser, start a game and restart hosts.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from attrs import evolve
from playwright.sync_api import Browser, Route, expect

from svcserver.edge.invite import decode
from svcserver.kernel.secrets import Secret
from svcserver.launcher import words
from svcserver.launcher.host_list import joined
from svcserver.launcher.key_files import write_key_file
from tests.ctl.hosts import demo_host, run, value
from tests.launcher.around import invite_text
from tests.live.players_friends import Friend
from tests.live.players_host import (
    PROGRAM,
    host,
    in_home,
    invite,
    launcher,
    link_of,
    start_again,
    system,
)
from tests.live.players_page import LOOKED_MS, LOOKS, Visit, visit
from tests.live.real_browser import beside, browser
from tests.support.processes import eventually

__all__ = ["browser", "host", "system"]  # fixtures

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("system")]
LOOKS_ON = [*((look, "linux") for look in LOOKS), ("light", "windows")]


# slow: 120 s: a whole visit in a browser, each page pictured and checked
@pytest.mark.parametrize(("look", "system"), LOOKS_ON, indirect=["system"])
def test_a_player_gets_from_an_invite_to_playing(
    browser: Browser, host: Path, tmp_path: Path, look: str
) -> None:
    with visit(browser, tmp_path, look) as tab:
        tab.picture("1-invite")
        tab.join(invite(host))
        tab.reads("Friday Hunts")
        expect(tab.page.locator(".words li")).to_have_count(8)
        tab.picture("2-words")
        tab.press("They match, go on")
        name = tab.page.get_by_label("Your name on this host")
        name.fill(f"Bo_{look}")
        tab.picture("3-name")
        tab.press("Make my account")
        expect(tab.page.get_by_role("button", name=re.compile("^Download"))).to_be_visible()
        expect(tab.page.locator("img.picture")).to_be_visible()
        tab.picture("4-download")
        tab.download()
        tab.reads("Hunt on Friday")
        tab.press("Play")  # the player types nothing, because the owner has named the program
        tab.reads(f"You are playing as Bo_{look}")
        deliveries = (tab.game / PROGRAM).with_name("played.json")
        eventually(deliveries.exists)
        expect(tab.page.locator(".people")).to_contain_text(f"Bo_{look}", timeout=LOOKED_MS)
        tab.picture("5-playing")
        key = json.loads((tab.home / "launcher/state/keys.json").read_text()).popitem()[1]
        assert key not in tab.page.content()
        tab.press("End the game")
        expect(tab.page.get_by_role("button", name="Play")).to_be_visible()
        logs = (tab.home / "launcher/state/launcher.log").read_text()
        assert key not in logs


# slow: 50 s: a launcher, and a browser that joins hosts four times
def test_the_launcher_explains_errors_while_joining(
    browser: Browser, host: Path, tmp_path: Path
) -> None:
    run("account", "create", "Taken_1", "--config", host)
    with visit(browser, tmp_path) as tab:
        tab.join("svc://join?v=2&mode=public")
        tab.reads("This invite is incomplete. Copy the whole line.")
        tab.rounds()
        expect(tab.page.get_by_label("Your invite")).to_have_value("svc://join?v=2&mode=public")
        text = invite(host)
        wrong = re.sub(r"fp=[0-9a-f]{64}", "fp=" + "ab" * 32, text)
        tab.join(wrong)
        tab.reads(words.WRONG_CERTIFICATE)
        expect(tab.page.locator(".state")).to_have_text("wrong certificate")
        tab.picture("6-wrong-certificate")
        tab.press("+ Another host")
        [code] = re.findall(r"code=([^&]+)", text)
        tab.join(text.replace(code, "ABCD-EFGH-JKMX"))
        tab.reads(words.INVITE_UNKNOWN)
        tab.press("They match, go on")
        name = tab.page.get_by_label("Your name on this host")
        name.fill("Taken_1")
        tab.picture("15-wrong-code")
        tab.page.get_by_label("The code of your invite").fill(code)
        tab.press("Use this code")
        expect(tab.page.get_by_label("The code of your invite")).to_be_hidden()
        expect(tab.page.get_by_text(words.INVITE_UNKNOWN)).to_be_hidden()
        expect(name).to_have_value("Taken_1")
        tab.press("Make my account")
        tab.reads(words.NAME_TAKEN)
        _asks_for_a_name(tab, "Free_1")
        tab.picture("14-name-free")
        tab.press("Make my account")
        expect(tab.page.get_by_role("button", name=re.compile("^Download"))).to_be_visible()
        tab.press("+ Another host")  # a host in the private network can be added without an invite
        port = value(host, "metagame", "PORT")
        tab.join(f"svc://join?v=1&host=127.0.0.1&port={port}&code=ABCD-EFGH&name=Beside")
        tab.press("Go on")
        _asks_for_a_name(tab, "Free_2")


# slow: a browser, a launcher, and an answer that is held back
def test_a_delayed_older_state_never_replaces_a_newer_state(
    browser: Browser, host: Path, tmp_path: Path
) -> None:
    """A delayed answer, from before the player's action, arrives after the action's answer."""
    stored: list[tuple[Route, bytes]] = []

    def keep(route: Route) -> None:
        if stored:
            route.continue_()
        else:
            stored.append((route, route.fetch().body()))

    with visit(browser, tmp_path, "light", invite(host)) as tab:
        tab.reads("Your name and key are not sent to the host yet")
        tab.page.route("**/api/state", keep)
        while not stored:
            tab.page.wait_for_timeout(50)
        tab.press("They match, go on")
        name = tab.page.get_by_label("Your name on this host")
        name.fill("Late_1")
        [(late, body)] = stored
        late.fulfill(body=body, content_type="application/json")
        tab.rounds()
        expect(name).to_have_value("Late_1")  # the field was not redrawn empty
        tab.press("Make my account")
        expect(tab.page.get_by_role("button", name=re.compile("^Download"))).to_be_visible()


def _asks_for_a_name(tab: Visit, free: str) -> None:
    """Type a name that is taken, and replace it by a free name before the host can answer."""
    name = tab.page.get_by_label("Your name on this host")
    reply = tab.page.locator("#name-said")
    name.fill("Taken_1")
    expect(reply).to_have_text(words.NAME_TAKEN)
    name.press_sequentially("!")
    expect(reply).to_have_text(words.NAME_INVALID)
    name.fill("Taken_1")
    name.fill(free)
    expect(reply).to_have_text(words.NAME_FREE)


def test_a_damaged_file_is_repaired_and_nothing_else_fetched(
    browser: Browser, host: Path, tmp_path: Path
) -> None:
    with visit(browser, tmp_path, "light", invite(host)) as tab:
        tab.register("Repair_1")
        tab.download()
        whole = (tab.game / "data" / "part 3.bin").read_bytes()
        (tab.game / "data" / "part 3.bin").write_bytes(b"x" + whole[1:])
        tab.press("Repair")
        tab.reads(words.DAMAGED_ONE.format(path="data/part 3.bin"))
        tab.press(re.compile(r"^Repair \(20 KB\)"))
        expect(tab.page.get_by_role("button", name="Play")).to_be_visible()
        assert (tab.game / "data" / "part 3.bin").read_bytes() == whole


def test_a_page_of_another_origin_gets_and_does_nothing(browser: Browser, tmp_path: Path) -> None:
    """The page knows the link's token and the launcher's secret, but has the wrong origin."""
    hosts = tmp_path / "launcher/state/hosts.json"
    with launcher(tmp_path, "--print-link") as started, another_site() as site:
        link = link_of(started)
        own, _, token = link.partition("#")
        secret = json.loads((tmp_path / "launcher/state/running.json").read_text())["secret"]
        made = browser.new_context()
        page = made.new_page()
        page.goto(own)
        expect(page.locator("main")).to_contain_text("each link works once")
        for elsewhere in ("data:text/html,<p>elsewhere", site):
            page.goto(elsewhere)
            assert page.evaluate(ASKING, own + "api/state") == "refused"
            for path, reply in (
                ("api/hand-over", {"secret": secret, "invite": invite_text()}),
                ("api/enter", {"token": token}),
            ):
                page.evaluate(POSTING, [own + path, json.dumps(reply)])
        log = (tmp_path / "launcher/state/launcher.log").read_text()
        # all three requests of the site arrived; the browser may block the other page's
        assert log.count("refused a request from outside the page: origin") >= 3
        assert not hosts.exists()
        page.goto(link)  # the link's token has not been used up
        expect(page.get_by_label("Your invite")).to_be_visible()
        made.close()


ASKING = """async (url) => {
    try { const got = await fetch(url); return `answered ${got.status}`; }
    catch (why) { return "refused"; }
}"""
POSTING = """async ([url, body]) => {
    try { await fetch(url, {method: "POST", mode: "no-cors", body}); }
    catch (why) { return; }  // it was sent: our answer may not be used by another origin
}"""


@contextmanager
def another_site() -> Iterator[str]:
    """Serve a page of another origin on this machine."""

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


def test_a_name_that_is_pointed_at_this_pc_gets_nothing(browser: Browser, tmp_path: Path) -> None:
    """A hostile domain name resolves to this PC (DNS rebinding); its page knows the token."""
    pointed = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    with beside(browser, pointed) as second, launcher(tmp_path, "--print-link") as started:
        link = link_of(started)
        evil = link.replace("127.0.0.1", "evil.example")
        page = second.new_page()
        answer = page.goto(evil)
        assert answer is not None and answer.status == 403
        asking = """async (token) => {
            const sent = { method: "POST", body: JSON.stringify({ token }) };
            return [(await fetch("/api/enter", sent)).status, (await fetch("/api/state")).status];
        }"""
        assert page.evaluate(asking, link.partition("#")[2]) == [403, 403]
        page.goto(link)  # the token has not been used up
        expect(page.get_by_label("Your invite")).to_be_visible()


# slow: 60 s: an evening of two players before the visit in a browser
def test_a_friend_the_own_hunter_and_a_passport_for_another_host(
    browser: Browser, host: Path, tmp_path: Path
) -> None:
    """The player brings a key file from another PC; another host imports the player's passport."""
    bo, ann = Friend(host, "Bo_0"), Friend(host, "Ann_0")
    bo.meets(ann)
    bo.has_been_about("NightOwls", "CR19_PlayerHunt_Patrol_Flame")
    record = evolve(joined(decode(invite(host)), None), username="Bo_0")
    file = write_key_file(tmp_path / "usb", record, Secret(bo.key))
    with visit(browser, tmp_path / "home", "dark") as tab:
        tab.bring(file)
        tab.reads("You are Bo_0")
        people = tab.page.locator(".people")
        ann.beat("city")
        expect(people).to_contain_text("Ann_0friendin the city", timeout=LOOKED_MS)
        expect(people).to_contain_text(words.MEET["city"])
        hunter = tab.page.get_by_role("region", name="My hunter")
        expect(hunter).to_contain_text(
            re.compile(r"Bo_0 \(level \d+\) plays Ranger\. \d+ ranks of")
        )
        expect(hunter).to_contain_text("GuildNightOwls")
        expect(hunter).to_contain_text(re.compile(r"Hunt passSeason 9b, \d+ of \d+"))
        expect(hunter).to_contain_text("Blaze Patrol")
        hunter.get_by_text("Mastery", exact=True).click()
        expect(hunter).to_contain_text(re.compile(r"Weapon Chain Blades(\d+) of \1(?!\d)"))
        hunter.get_by_text("Characters and their saves").click()
        expect(hunter.locator("dl", has_text="Ranger").last).to_contain_text(":")
        tab.picture("12-hunter")
        tab.press("Save my passport")
        tab.reads("Your passport was saved to")
        folders = tab.home, tab.home / "Downloads"  # where the system has one
        [passport] = [file for folder in folders for file in folder.glob("svc-passport-*.json")]
    _is_taken_in_once(passport, host, demo_host(tmp_path / "other"))


def _is_taken_in_once(passport: Path, host: Path, second: Path) -> None:
    """Assert that a host that trusts the signer accepts the passport once, but not twice."""
    signer = json.loads(run("passport", "key", "--json", "--config", host).stdout)["key"]
    for line in (
        ("account", "create", "Bo_2"),
        ("passport", "trust", signer),
        ("passport", "import", passport, "Bo_2"),
    ):
        ran = run(*line, "--config", second)
        assert ran.returncode == 0, ran.stderr
    assert "1 characters" in ran.stdout
    again = run("passport", "import", passport, "Bo_2", "--config", second)
    assert again.returncode == 1 and "has been imported before" in again.stderr


def _key_saved(browser: Browser, host: Path, home: Path) -> Path:
    """Return the key file that the player Mover_1 saves before leaving a PC."""
    downloads = home / "Downloads"
    downloads.mkdir(parents=True)
    with visit(browser, home, "light", invite(host)) as tab:
        tab.register("Mover_1")
        expect(tab.page.get_by_role("button", name=re.compile("^Download"))).to_be_visible()
        tab.open_settings()
        tab.press("Save my key for another PC")
        tab.reads(f"Your key was saved to {in_home(home, downloads)}")
        [file] = downloads.iterdir()
        assert json.loads(file.read_text())["key"] not in tab.page.content()
    return file


READS = """() => {
    window.read = [];
    const picture = (one) => one instanceof Blob && one.type.startsWith("image/");
    const note = (kind, name) => {
        const own = kind[name];
        kind[name] = function (...given) {
            if (![this, ...given].some(picture)) window.read.push(name);
            return own.apply(this, given);
        };
    };
    for (const name of ["text", "arrayBuffer", "bytes", "stream"])
        if (name in Blob.prototype) note(Blob.prototype, name);
    for (const name of ["readAsText", "readAsArrayBuffer", "readAsDataURL"])
        note(FileReader.prototype, name);
    note(URL, "createObjectURL");
}"""
"""Has a page note in ``window.read`` how its scripts read files that are no pictures."""


# slow: 30 s: two launchers, each with a browser's pages
def test_a_key_is_carried_to_another_pc_and_never_in_a_page(
    browser: Browser, host: Path, tmp_path: Path
) -> None:
    """The launcher writes the key file to a folder that players know; the page never reads it."""
    notes = tmp_path / "notes.json"
    notes.write_text('{"shopping": ["potions"]}')
    file = _key_saved(browser, host, tmp_path / "old")
    key = json.loads(file.read_text())["key"]
    with visit(browser, tmp_path / "new") as tab:
        messages: list[bytes] = []
        own = tab.page.url
        tab.page.on(
            "response",
            lambda entry: messages.append(entry.body()) if "/api/" in entry.url else None,
        )
        tab.page.evaluate(READS)
        tab.bring(notes)
        tab.reads(words.BAD_KEY_FILE)
        tab.bring(file)
        tab.reads("You are Mover_1")
        assert tab.page.evaluate("window.read") == []
        assert tab.page.url == own
        assert messages and not [entry for entry in messages if key.encode() in entry]
        assert key not in tab.page.content()
        another = Friend(host, "Mover_2")
        second = {**json.loads(file.read_text()), "key": another.key, "username": another.name}
        notes.write_text(json.dumps(second))
        tab.press("+ Another host")
        tab.bring(notes)
        tab.reads("You are already Mover_1 on Friday Hunts, with a different key")
        tab.rounds()
        tab.picture("13-other-key")
        tab.press("Use this key instead of mine")
        tab.reads("You are Mover_2")


def test_an_invite_that_is_clicked_is_shown_by_the_launcher_that_runs(
    browser: Browser, tmp_path: Path
) -> None:
    """The click starts a second launcher, which passes the link to the running launcher."""
    with visit(browser, tmp_path) as tab:
        tab.reads("Hunt with your friends")
        assert "already runs" in start_again(tmp_path, invite_text())
        tab.reads("Your name and key are not sent to the host yet")


def test_the_page_ends_the_launcher(browser: Browser, tmp_path: Path) -> None:
    with launcher(tmp_path, "--print-link") as started:
        page = browser.new_page()
        page.goto(link_of(started))
        page.get_by_role("button", name="Close the launcher").click()
        expect(page.locator("main")).to_contain_text("The launcher has ended")
        assert started.process.wait(30) == 0
