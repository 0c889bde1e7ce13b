"""The dashboard's page about the machine, in a real browser, with a whole running host.

Real processes are needed because the stack sends the alerts, and game servers are grandchild
processes of the stack.
"""

import json
import os
import re
import signal
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from attrs import evolve
from playwright.sync_api import Browser, Locator, Route, expect

from svcserver.ctl.backup.making import STAMP
from svcserver.kernel import backups
from svcserver.stack.alerts.watching import installed_version
from tests.ctl.hosts import change, demo_host, read_output, run, stack, value
from tests.live.dashboard_page import Host, Visit, visit
from tests.live.real_browser import browser
from tests.live.test_alerts import add, receiver
from tests.live.test_maintenance import cities
from tests.live.test_stack import pid_of
from tests.support.processes import SELDOM_S, Service, bearer, eventually, register
from tests.support.proves import proves

__all__ = ["browser"]  # a fixture

pytestmark = pytest.mark.live

HUNT = {"gameMode": "ISLAND", "gameArgs": "", "playerHuntId": "Hunt_B"}
Deliveries = list[tuple[dict[str, str], bytes]]


@pytest.fixture(scope="module")
def city_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Deliveries]]:
    """Run a stack with a city; yield the host, and the alerts that its webhook received."""
    folder = demo_host(tmp_path_factory.mktemp("machine") / "host")
    change(folder, "metagame", "SERVER_NAME", "Evening Hunters")
    port = int(value(folder, "metagame", "PORT"))
    with receiver() as (url, deliveries):
        add(folder, "hook", url)
        with stack(folder):
            eventually(lambda: "stack ready: " in read_output(folder))
            here = Host(Service("svc-metagame", folder, {}, port), folder)
            eventually(lambda: city_of(here), pause_s=SELDOM_S)
            yield here, deliveries


def running(here: Host) -> list[dict[str, str]]:
    result: list[dict[str, str]] = here.admin("GET", "DashboardGameServers")["servers"]
    return result


def alerts_of(deliveries: Deliveries, what: str) -> list[dict[str, str]]:
    """Return the alerts of one kind that the webhook received."""
    return [load for load in (json.loads(body) for _, body in deliveries) if load["what"] == what]


def city_of(here: Host) -> str:
    return next((server["id"] for server in running(here) if server["kind"] == "city"), "")


def row_of(tab: Visit, kind: str) -> Locator:
    table = tab.page.get_by_role("table", name="Game servers")
    return table.get_by_role("row").filter(has_text=kind)


def press(tab: Visit, kind: str, name: str) -> None:
    row_of(tab, kind).get_by_role("button", name=name, exact=True).click()


# slow: a service is killed, and the stack writes its state every fifteen seconds
@proves("a service that is frozen is down")
def test_the_overview_shows_the_services_of_a_running_stack(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        services = tab.page.locator(".services li")
        for name in ("metagame", "deploy", "content", "allowlist", "gateway", "game servers"):
            expect(services.filter(has_text=name)).to_contain_text("running")
        expect(services.filter(has_text="deploy")).to_contain_text("0 restarts")
        expect(services.filter(has_text="deploy")).to_contain_text(installed_version())
        content = pid_of(here.folder, "content")
        assert content is not None
        os.kill(content, signal.SIGKILL)
        expect(services.filter(has_text="content")).to_contain_text("1 restart")
        expect(services.filter(has_text="content")).to_contain_text("running")
        expect(tab.page.get_by_label("Machine")).to_contain_text("Memory")
        tab.picture("overview-stack")


# slow: a stack with a game server, of which each list comes late
@proves("POST DashboardGameServer", "GET DashboardConsole", "GET DashboardGameServers")
def test_a_game_server_is_started_stopped_and_restarted(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    with visit(browser, here) as tab:
        tab.late("DashboardGameServers")  # the page shows the change when it confirms the change
        tab.sign_in(here.key)
        tab.go("Game servers")
        before = city_of(here)
        press(tab, "city", "Restart")
        tab.confirm("Cancel")
        press(tab, "city", "Restart")
        tab.confirm("Restart")
        tab.expect_confirmation("The city was restarted")
        assert city_of(here) not in ("", before)
        press(tab, "city", "Stop")
        tab.confirm("Stop")
        tab.expect_confirmation("The city was stopped")
        expect(row_of(tab, "city")).to_have_count(0)
        assert running(here) == []
        tab.picture("machine-stopped")
        tab.press("Start the city")
        tab.expect_confirmation("The city was started")
        expect(row_of(tab, "city")).to_have_count(1)
        expect(tab.page.get_by_role("button", name="Start the city")).to_have_count(0)
        assert city_of(here)


@proves("GET DashboardMachines")
def test_a_machine_of_the_fleet_is_drained(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    gigabyte = 1 << 30
    machine = {
        "id": "n1",
        "name": "<b>second</b>",
        "address": "10.0.0.2",
        "state": "ready",
        "memoryBytes": 8 * gigabyte,
        "reservedBytes": 3 * gigabyte,
        "hunts": 2,
        "players": 7,
        "version": "20.10.24",
        "room": 5,
        "agent": "away",
        "clockSeconds": -3.21,
        "hasImage": False,
        "gamePorts": "not reachable",
    }
    orders = []

    def drain(route: Route) -> None:
        orders.append(route.request.post_data_json)
        machine["state"] = "draining" if len(orders) == 1 else "ready"
        route.fulfill(json={"id": None})

    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Machines")
        expect(tab.page.get_by_text("Game servers run only on this machine.")).to_be_visible()
        tab.page.route(
            "**/DashboardMachines", lambda route: route.fulfill(json={"machines": [machine]})
        )
        tab.page.route("**/DashboardGameServer", drain)
        tab.go("Game servers")
        tab.go("Machines")
        row = tab.page.get_by_role("table", name="Machines").get_by_role("row").nth(1)
        for text in ("<b>second</b>", "ready", "5.0 GB free", "3.0 GB reserved", "2 hunts"):
            expect(row).to_contain_text(text)
        for text in ("agent not connected", "clock 3.2 s behind", "image missing", "not reachable"):
            expect(row).to_contain_text(text)
        expect(tab.page.get_by_text("room for 5 more")).to_be_visible()
        row.get_by_role("button", name="Drain").click()
        tab.confirm("Drain")
        tab.expect_confirmation("<b>second</b> starts no more hunts")
        expect(row).to_contain_text("draining")
        tab.picture("machines")
        row.get_by_role("button", name="Use again").click()
        tab.confirm("Use again")
        tab.expect_confirmation("<b>second</b> is used again")
        assert [order["Act"] for order in orders] == ["drain", "undrain"]


HOSTILE = b"\xff\x00binary\x1b[2J\x1b]0;x\x07" + b"\x1b[31mlong" * 99 + b"y" * 9_000 + b"\n"
COLOURED = b"\x1b[1;31mred\x1b[0m and \x1b[38;5;9mplain <b>text</b>\x1b]0;title\x07\n"


def output_of(here: Host, server_id: str) -> Path:
    [server] = [server for server in running(here) if server["id"] == server_id]
    [path] = here.folder.glob(f"**/gameserver-logs/{server['kind']}-{server['port']}.log")
    return path


@proves("GET DashboardLaunches", "GET DashboardEvents")
def test_a_game_servers_console_streams_searches_and_pauses(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    player = register(here.service, "Watcher_1")
    beat = {"map": "city_01_persistent", "state": "island"}
    here.call("POST", "/heartbeat", beat, **bearer(player))
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Game servers")
        expect(row_of(tab, "city")).to_contain_text("Watcher_1")
        expect(row_of(tab, "city")).to_contain_text(re.compile(r"\d+ % · \d+\.\d MB"))
        tab.picture("servers")
        row_of(tab, "city").get_by_role("button", name="Graph of").click()
        graphs = tab.page.get_by_role("dialog").get_by_role("img")
        for name in (r"CPU: CPU \d+(\.\d)? %", r"Memory: memory \d+(\.\d)? MB"):
            expect(graphs.and_(tab.page.get_by_role("img", name=re.compile(name)))).to_be_visible()
        tab.picture("server-graphs")
        tab.confirm("Close")
        row_of(tab, "city").get_by_role("link", name="Console").click()
        lines = tab.page.get_by_role("log", name="Output")
        expect(lines).to_contain_text("listening on")
        path = output_of(here, city_of(here))

        def prints(text: bytes) -> None:
            with path.open("ab") as file:
                file.write(text)

        prints(HOSTILE + COLOURED + b"all is coloured\n")
        expect(lines).to_contain_text("all is coloured")
        expect(lines.locator(".ansi-1.bold").last).to_have_text("red")
        expect(lines).to_contain_text("red and plain <b>text</b>")
        expect(lines).not_to_contain_text("title")
        expect(lines.get_by_text("binary").last).to_contain_text(re.compile(r"^\ufffd\?binarylong"))
        tab.picture("console")
        search = tab.page.get_by_label("Search")
        search.fill("no such text")
        expect(lines).to_have_text("No lines match.")
        search.fill("LISTENING")
        expect(lines.locator("div")).to_have_count(1)
        search.fill("")
        tab.press("Pause")
        prints(b"while paused\n")
        expect(tab.page.get_by_role("button", name="Resume (1 new line)")).to_be_visible()
        expect(lines).not_to_contain_text("while paused")
        tab.press(re.compile("Resume"))
        expect(lines).to_contain_text("while paused")
        assert lines.get_by_text("listening on").count() == 1
        press_stop = tab.page.get_by_role("button", name="Stop", exact=True)
        press_stop.click()
        tab.picture("console-question")
        tab.confirm("Cancel")
        assert city_of(here)


# slow: a stack, and in each look a city that is restarted and crashes
def test_the_console_follows_a_restart_and_shows_the_end_of_a_crash(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Game servers")
        row_of(tab, "city").get_by_role("link", name="Console").click()
        before = city_of(here)
        tab.press("Restart")
        tab.confirm("Restart")
        tab.expect_confirmation("The city was restarted")
        expect(tab.page).to_have_url(re.compile(f"#/servers/{city_of(here)}$"))
        lines = tab.page.get_by_role("log")
        expect(lines).to_contain_text("listening on")
        with output_of(here, city_of(here)).open("ab") as file:
            file.write(b"\x1b[31mfatal: no memory\x1b[0m\nand half a li")
        os.kill(eventually(lambda: logged_cities(here)[-1]), signal.SIGSEGV)
        expect(tab.page.get_by_text("This game server has ended")).to_contain_text("SIGSEGV")
        expect(lines).to_contain_text("and half a li")
        expect(tab.page.get_by_role("button", name="Pause")).to_be_hidden()
        assert lines.get_by_text("fatal: no memory").count() == 1
        tab.picture("console-ended")
        tab.page.get_by_role("link", name="All game servers").click()
        past = tab.page.get_by_role("table", name="Past launches").get_by_role("row")
        expect(past.nth(1)).to_contain_text("SIGSEGV")
        expect(past.nth(2)).to_contain_text("stopped by staff")
        tab.picture("servers-history")
        past.nth(1).get_by_role("link", name="Output").click()
        expect(lines).to_contain_text("and half a li")
        expect(lines.locator(".ansi-1")).to_have_text("fatal: no memory")
        expect(tab.page.get_by_text("This game server has ended")).to_contain_text("SIGSEGV")
        expect(tab.page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
        tab.page.get_by_role("link", name="All game servers").click()
        here.admin("POST", "DashboardGameServer", {"Act": "start", "Kind": "city"})
        expect(row_of(tab, "city")).to_have_count(1)
        assert city_of(here) not in ("", before)


@proves("POST DashboardDrain", "GET DashboardDrain")
def test_no_new_hunt_begins_while_hunts_are_paused(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    ann = register(here.service, "Ann_1")

    def join() -> int:
        return here.service.ask("POST", "/candidate/join", HUNT, bearer(ann))[0]

    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.press("Pause new hunts")
        tab.picture("drain-question")
        tab.answer("Pause", **{"When": "", "The server is empty": "nobody", "Reason": "new disk"})
        tab.expect_confirmation("New hunts are paused")
        status = tab.page.get_by_role("region", name="Status")
        expect(status).to_contain_text("paused new hunts")
        expect(status).to_contain_text(": new disk.")
        expect(tab.page.get_by_role("button", name="Pause new hunts")).to_have_count(0)
        tab.picture("drain")
        assert join() == 400
        tab.press("End it")
        tab.confirm("Allow")
        tab.expect_confirmation("New hunts are allowed")
        expect(status).not_to_contain_text("Maintenance")
        expect(tab.page.get_by_role("button", name="Pause new hunts")).to_be_visible()
        assert join() == 200


def test_the_focus_stays_while_the_table_changes(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Game servers")
        stop = row_of(tab, "city").get_by_role("button", name="Stop", exact=True)
        stop.focus()
        here.admin("POST", "DashboardGameServer", {"Act": "start", "Kind": "dojo"})
        expect(row_of(tab, "dojo")).to_have_count(1)
        expect(stop).to_be_focused()
        tab.page.keyboard.press("Enter")
        tab.confirm("Cancel")
        expect(stop).to_be_focused()
        again = row_of(tab, "city").get_by_role("button", name="Restart", exact=True)
        again.focus()
        tab.page.keyboard.press("Enter")
        tab.confirm("Restart")
        tab.expect_confirmation("The city was restarted")
        expect(again).to_be_focused()


def test_the_focus_stays_while_the_deploy_server_is_frozen(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    deploy = pid_of(here.folder, "deploy")
    assert deploy is not None
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Game servers")
        stop = row_of(tab, "city").get_by_role("button", name="Stop", exact=True)
        stop.focus()
        away = tab.page.get_by_text("The deploy server does not answer.")
        os.kill(deploy, signal.SIGSTOP)
        try:
            expect(away).to_be_visible()
            expect(stop).to_be_focused()
            tab.picture("servers-away")
        finally:
            os.kill(deploy, signal.SIGCONT)
        expect(away).to_be_hidden()
        expect(stop).to_be_focused()


def test_the_focus_returns_to_a_row_that_was_away(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    held: list[Route] = []
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Game servers")
        if row_of(tab, "dojo").count() == 0:
            here.admin("POST", "DashboardGameServer", {"Act": "start", "Kind": "dojo"})
        expect(row_of(tab, "dojo")).to_have_count(1)
        tab.page.route("**/DashboardGameServer", lambda route: held.append(route))
        again = row_of(tab, "city").get_by_role("button", name="Restart", exact=True)
        again.focus()
        tab.page.keyboard.press("Enter")
        tab.confirm("Restart")
        while not held:
            tab.page.wait_for_timeout(50)
        here.admin("POST", "DashboardGameServer", {"Act": "stop", "Id": city_of(here)})
        expect(row_of(tab, "city")).to_have_count(0)
        here.admin("POST", "DashboardGameServer", {"Act": "start", "Kind": "city"})
        expect(row_of(tab, "city")).to_have_count(1)
        held[0].fulfill(json={"id": city_of(here)})
        tab.expect_confirmation("The city was restarted")
        expect(again).to_be_focused()


# slow: a deaf game server is killed after ten seconds
@proves("POST DashboardGameServer")
def test_an_unresponsive_city_is_restarted_and_stopped(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Game servers")
        for act, done in (("Restart", "The city was restarted"), ("Stop", "The city was stopped")):
            before = city_of(here)
            count = len(logged_cities(here))
            os.kill(logged_cities(here)[-1], signal.SIGSTOP)
            press(tab, "city", act)
            tab.confirm(act)
            expect(tab.page.locator("#says")).to_contain_text(done, timeout=40_000)
            expect(tab.page.locator("#says .bad")).to_have_count(0)
            assert city_of(here) != before
            if act == "Restart":
                eventually(partial(more_than, here, count))
        tab.press("Start the city")
        tab.expect_confirmation("The city was started")


# slow: longer than the page calls a server silent
@proves("POST DashboardGameServer", "the dashboard while its server is away")
def test_a_restart_in_which_the_metagame_is_frozen_is_done_once(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    metagame = pid_of(here.folder, "metagame")
    assert metagame is not None
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.go("Game servers")
        before, count = city_of(here), len(logged_cities(here))
        press(tab, "city", "Restart")
        os.kill(metagame, signal.SIGSTOP)
        try:
            tab.confirm("Restart")
            expect(tab.page.locator("#away")).to_be_visible()
        finally:
            os.kill(metagame, signal.SIGCONT)
        tab.expect_confirmation("The city was restarted")
        expect(tab.page.locator("#away")).to_be_hidden()
        [city] = [server for server in running(here) if server["kind"] == "city"]
        assert city["id"] != before
        eventually(partial(more_than, here, count))
        assert len(cities(here.folder)) == count + 1


def logged_cities(here: Host) -> list[int]:
    """Wait until the log names the running city server; return the pids of all logged servers."""
    eventually(
        lambda: (city := city_of(here)) and city in read_output(here.folder), pause_s=SELDOM_S
    )
    return cities(here.folder)


def more_than(here: Host, count: int) -> bool:
    """Return whether the log names more than ``count`` started city servers."""
    return len(cities(here.folder)) > count


def yesterdays(folder: Path) -> Path:
    """Make the host's only backup one day older."""
    known = backups.read(folder)
    assert known is not None and known.newest is not None
    made = known.newest.made - timedelta(days=1).total_seconds()
    stamp = datetime.fromtimestamp(made).strftime(STAMP)
    old = Path(known.newest.file)
    file = old.rename(old.with_name(f"svc-backup-{stamp}.tar.gz"))
    backups.write(folder, evolve(known, kept=[evolve(known.newest, file=str(file), made=made)]))
    return file


# slow: two nightly backups, and a browser until the overview has seen them
@proves("svcctl backup: a damaged one is noticed")
def test_the_night_finds_a_damaged_backup_and_the_overview_is_red(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, deliveries = city_stack
    # the drill is tested in test_backup.py
    (here.folder / "stack.env").write_text("BACKUP_DRILL=0\n")
    made = run("backup", "nightly", "--config", here.folder)
    assert made.returncode == 0, made.stderr
    file = yesterdays(here.folder)
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tile = tab.fact("Backup")
        expect(tile).to_have_text("Made")
        assert "bad" not in (tile.get_attribute("class") or "")
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        night = run("backup", "nightly", "--config", here.folder)
        assert (night.returncode, file.name in night.stderr) == (1, True), night.stderr
        expect(tile).to_have_text("Needs attention")
        expect(tile).to_have_class("bad")
        note = tab.page.locator("dt:text-is('Backup') ~ dd.note")
        expect(note).to_have_text(
            f"{file.name}: the file is damaged: it has changed since it was written"
        )
        tab.picture("backup-damaged")
        tab.go("Alerts")
        incident = tab.page.get_by_role("list", name="Incidents").get_by_role("listitem").first
        expect(incident).to_contain_text(re.compile(f"backup failed.*{file.name}.*ongoing$"))
    [alert] = eventually(lambda: alerts_of(deliveries, "backup"))
    assert file.name in alert["text"] and not alert["over"]


# slow: a stack of five processes restarts
@proves("svcctl drain, update when-empty", "POST DashboardDrain")
def test_an_update_when_empty_is_begun_on_the_page(
    browser: Browser, city_stack: tuple[Host, Deliveries]
) -> None:
    here, _ = city_stack
    begun = read_output(here.folder).count("stack ready: ")
    with visit(browser, here) as tab:
        tab.sign_in(here.key)
        tab.press("Pause new hunts")
        tab.answer("Pause", When="restart", Reason="update")
        tab.expect_confirmation("New hunts are paused")
        eventually(lambda: read_output(here.folder).count("stack ready: ") == begun + 1)
        ended = tab.page.get_by_role("button", name="Pause new hunts")
        expect(ended).to_be_visible(timeout=60_000)  # the browser session stays signed in
        expect(tab.page.locator("#away")).to_be_hidden(timeout=60_000)
        tab.go("Game servers")
        expect(row_of(tab, "city")).to_have_count(1)
