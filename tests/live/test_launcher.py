"""The launcher in a real browser, from an invite to playing, against real hosts.

Why processes: a browser, a game that is started, hosts that restart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from playwright.sync_api import Browser, expect

from svcserver.edge.invite import decode
from svcserver.kernel.secrets import Secret
from svcserver.launcher import words
from svcserver.launcher.host_list import joined
from svcserver.launcher.key_files import write_key_file
from tests.ctl.hosts import demo_host, run, value
from tests.launcher.around import invite_text
from tests.live.players_friends import Friend
from tests.live.players_host import (
    invite,
    launcher,
    link_of,
    players_host,
    running,
    start_again,
)
from tests.live.players_page import LOOKS, beside, chromium, visit
from tests.support.processes import eventually

pytestmark = pytest.mark.live

PASS = "season09b"  # ACTIVE_HUNT_PASS of a host that sets none


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = players_host(tmp_path_factory.mktemp("host") / "host", "Friday Hunts")
    with running(made):
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


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
        seen.press("+ Another host")  # in the private network, which tells while one types
        port = value(host, "metagame", "PORT")
        seen.join(f"svc://join?v=1&host=127.0.0.1&port={port}&code=ABCD-EFGH&name=Beside")
        seen.press("They match, go on")
        name = seen.page.get_by_label("Your name on this host")
        name.fill("Taken_1")
        seen.reads(words.NAME_TAKEN)
        name.fill("Free_2")
        expect(seen.page.locator("main")).not_to_contain_text(words.NAME_TAKEN)


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


def test_a_name_that_is_pointed_at_this_pc_gets_nothing(browser: Browser, tmp_path: Path) -> None:
    """Not even with the link's token: the name's owner could read what the page reads."""
    pointed = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    with beside(browser, pointed) as other, launcher(tmp_path, "--print-link") as process:
        link = link_of(process)
        evil = link.replace("127.0.0.1", "evil.example")
        page = other.new_page()
        answer = page.goto(evil)
        assert answer is not None and answer.status == 403
        asking = """async (token) => {
            const sent = { method: "POST", body: JSON.stringify({ token }) };
            return [(await fetch("/api/enter", sent)).status, (await fetch("/api/state")).status];
        }"""
        assert page.evaluate(asking, link.partition("#")[2]) == [403, 403]
        page.goto(link)  # the token has not been used up
        expect(page.get_by_label("Your invite")).to_be_visible()


def test_a_friend_the_own_hunter_and_a_passport_for_another_host(
    browser: Browser, host: Path, tmp_path: Path
) -> None:
    """With the key of another PC; the passport is taken in by a host that trusts this one."""
    bo, ann = Friend(host, "Bo_0"), Friend(host, "Ann_0")
    bo.meets(ann)
    ann.beat("city")
    bo.save("Ranger")
    guild = {"leader_account_id": bo.id, "name": "NightOwls", "nameplate": ""}
    bo.send("POST", "/guild/validate", guild)
    bo.earn("/guild", guild)
    bo.earn(f"/huntpass/{bo.id}", {"progression_id": PASS})
    seeded = run("account", "seed", "Bo_0", "grandfather", "--config", host)
    assert seeded.returncode == 0, seeded.stderr
    bo.hunt("CR19_PlayerHunt_Patrol_Flame")
    record = evolve(joined(decode(invite(host)), None), username="Bo_0")
    file = write_key_file(tmp_path / "usb", record, Secret(bo.key))
    with visit(browser, tmp_path / "home", "dark") as seen:
        seen.page.get_by_text("I have played there before, on another PC").click()
        seen.page.get_by_label("Key file of another PC").fill(str(file))
        seen.press("Bring my key")
        seen.reads("You are Bo_0")
        people = seen.page.locator(".people")
        expect(people).to_contain_text("Ann_0friendin the city")
        expect(people).to_contain_text(words.MEET["city"])
        hunter = seen.page.get_by_role("region", name="My hunter")
        expect(hunter).to_contain_text("GuildNightOwls")
        expect(hunter).to_contain_text(f"Hunt pass{PASS}")
        expect(hunter).to_contain_text("Blaze Patrol")
        hunter.get_by_text("Mastery", exact=True).click()
        expect(hunter).to_contain_text(re.compile(r"Weapon Chain Blades(\d+) of \1(?!\d)"))
        hunter.get_by_text("Characters and their saves").click()
        expect(hunter.locator("dl", has_text="Ranger").last).to_contain_text(":")
        seen.picture("12-hunter")
        seen.press("Save my passport")
        seen.reads("Your passport has been written to")
        [passport] = seen.home.glob("svc-passport-*.json")
    other = demo_host(tmp_path / "other")
    signer = json.loads(run("passport", "key", "--json", "--config", host).stdout)["key"]
    for line in (
        ("account", "create", "Bo_2"),
        ("passport", "trust", signer),
        ("passport", "import", passport, "Bo_2"),
    ):
        ran = run(*line, "--config", other)
        assert ran.returncode == 0, ran.stderr
    assert "1 characters" in ran.stdout
    again = run("passport", "import", passport, "Bo_2", "--config", other)
    assert again.returncode == 1 and "has been imported before" in again.stderr


def test_an_invite_that_is_clicked_is_shown_by_the_launcher_that_runs(
    browser: Browser, tmp_path: Path
) -> None:
    """The system starts the launcher with the link; a second one hands it over and ends."""
    with visit(browser, tmp_path) as seen:
        seen.reads("Hunt with your friends")
        assert "runs already" in start_again(tmp_path, invite_text())
        seen.reads("Before you tell the host anything")


def test_the_page_ends_the_launcher(browser: Browser, tmp_path: Path) -> None:
    with launcher(tmp_path, "--print-link") as process:
        page = browser.new_page()
        page.goto(link_of(process))
        page.get_by_role("button", name="Close the launcher").click()
        expect(page.locator("main")).to_contain_text("The launcher has ended")
        assert process.wait(30) == 0


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
