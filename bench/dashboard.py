"""The dashboard of a large host: the time until a page shows its data, and the cost of updates.

    python -m bench.dashboard [--accounts 5000] [--online 200] [--hunts 30] [--pages log,audit]

The host runs under ``svc-stack`` with simulated game servers. A real browser loads each page
``--rounds`` times with an empty cache, and as often with the files that it has stored. The figures
are the median and the 95th percentile of the time from the request for the page to the first frame
that shows its data. Then the page stays open for ``--seconds``. The cost of its live updates is the
CPU time that the metagame uses in these seconds, minus the CPU time that it uses in as many seconds
without an open page. Players send heartbeats all the time. Exits with status 1 if the median or the
cost of a page exceeds a limit, or if too few players are online or too few hunts run.
"""

import argparse
import json
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from itertools import cycle
from math import ceil
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import Any

from attrs import frozen
from playwright.sync_api import Page

from bench.evening import set_all
from bench.meters import cpu_s
from bench.population import populate
from bench.servers import running
from svcserver.ctl.blueprint import Ports
from svcserver.ctl.host import OWNER_KEY
from svcserver.ctl.host_creation import create_host
from svcserver.kernel.port_holders import port_holder
from svcserver.players import requests
from svcserver.players.http import body_of
from tests.live.real_browser import chromium

FIRST, UDP = 14_000, 15_000  # the host's ports
MOST_MS, MOST_PERCENT = 300, 1.0
EVERY_S = 60  # between two heartbeats of a player
READY_S = 120
SETTLE_S = 1  # after a page was closed
GROUP = 4  # players that share a hunt
CITY = "/Game/Maps/city/city_persistent"
SHOWN = """addEventListener("DOMContentLoaded", () => {
  const look = () => {
    const parts = [...document.querySelectorAll("#content .card, #content .log")];
    const waits = (part) => /^$|Loading…|Waiting for the server/.test(part.textContent)
      || part.querySelector(".plot:empty");
    if (window.shownAt || parts.every(waits)) return;
    window.shownAt = -1;
    requestAnimationFrame(() => setTimeout(() => { window.shownAt = performance.now(); }));
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true });
})"""


@frozen
class Player:
    """A registered player's id and token."""

    account: str
    token: str


@frozen
class Figure:
    """The figures of one page."""

    page: str
    first_ms: Sequence[float]  # with an empty cache
    again_ms: Sequence[float]
    percent: float  # of a core


def fetch_json(connection: HTTPConnection, call: requests.Call, token: str = "") -> Any:
    """Send one request; return the JSON of the reply, or exit if the reply is an error."""
    method, path, sent = call
    body, fields = body_of(sent)
    if token:
        fields = {**fields, "Authorization": f"Bearer {token}"}
    connection.request(method, path, None if sent is None else body, dict(fields))
    reply = connection.getresponse()
    text = reply.read()
    if reply.status >= 300:
        raise SystemExit(f"{method} {path} answered {reply.status}: {text[:200]!r}")
    return json.loads(text) if text else None


def make(folder: Path, accounts: int, hunts: int) -> None:
    """Create a host with these accounts, and with a port range that fits its game servers."""
    ports = Ports.from_base(FIRST)
    create_host(folder, "127.0.0.1", "owner", ports=ports, demo=True)
    last = UDP + hunts + 20
    set_all(
        folder,
        {
            "metagame": {"REGISTRATION_MODE": "OPEN"},
            "deploy": {"PORT_RANGE_BEGIN": str(UDP), "PORT_RANGE_END": str(last)},
        },
    )
    populate(folder / "svc.db", accounts)


def arrive(connection: HTTPConnection, count: int) -> list[Player]:
    """Register players and log them in."""
    players = []
    for number in range(count):
        key = fetch_json(connection, requests.register(f"Online_{number}"))["UUK"]
        reply = fetch_json(connection, requests.log_in(key))
        players.append(Player(reply["account_id"], reply["access_token"]))
        fetch_json(connection, requests.heartbeat(CITY, "island"), players[-1].token)
    return players


def check(connection: HTTPConnection, key: str, online: int, hunts: int) -> str:
    """Exit if fewer than ``online`` players are online or fewer than ``hunts`` hunts run.

    Otherwise return the id of a hunt.
    """
    connection.request("GET", "/svc/api/ServerStatus", headers={"X-SVC-User-API-Key": key})
    status = json.loads(connection.getresponse().read())
    running = [entry["id"] for entry in status["instances"] if entry["kind"] == "hunt"]
    print(f"{status['playersOnline']} players online, {len(running)} hunts")
    if status["playersOnline"] < online or len(running) < hunts:
        raise SystemExit("too few players or hunts; the figures are void")
    return str(running[0])


def hunt(connection: HTTPConnection, players: Sequence[Player]) -> list[int]:
    """Let the players hunt in groups of four; return the UDP ports of the game servers."""
    ports = set()
    for player, where in zip(players, cycle(requests.HUNTS)):
        fetch_json(connection, requests.join("ISLAND", where), player.token)
    for player in players:
        deadline = time.monotonic() + READY_S
        while True:
            status = fetch_json(connection, ("GET", "/candidate/status", None), player.token)
            if status["status"] == "IN_PROGRESS":
                ports.add(int(status["serverInfo"]["port"]))
                break
            if status["status"] == "FAILED" or time.monotonic() > deadline:
                raise SystemExit("a game server did not start; see deploy's lines in the log")
            time.sleep(0.2)
    return sorted(ports)


@contextmanager
def playing(port: int, players: Sequence[Player], servers: Sequence[int]) -> Iterator[None]:
    """Send the players' heartbeats, and keep their game servers busy, in a thread."""
    ended = Event()

    def play() -> None:
        with (
            closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        ):
            for number, player in enumerate(cycle(players)):
                if ended.wait(EVERY_S / len(players)):
                    return
                fetch_json(connection, requests.heartbeat(CITY, "island"), player.token)
                server = servers[number % len(servers)]
                udp.sendto(f"svc hello {number % len(servers)}".encode(), ("127.0.0.1", server))

    thread = Thread(target=play, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def first_content_ms(page: Page) -> float:
    """Reload the page; return the time until it shows its data."""
    page.reload()
    deadline = time.monotonic() + READY_S
    while (shown_ms := page.evaluate("window.shownAt ?? -1")) < 0:
        if time.monotonic() > deadline:
            raise SystemExit(f"{page.url} shows no data: {page.inner_text('#content')}")
        time.sleep(0.05)
    return float(shown_ms)


def content_ms(page: Page, rounds: int) -> tuple[list[float], list[float]]:
    """Reload the page with an empty cache and with stored files, in turn; return the times."""
    network = page.context.new_cdp_session(page)
    first, again = [], []
    for _ in range(rounds):
        network.send("Network.clearBrowserCache")
        first.append(first_content_ms(page))
        again.append(first_content_ms(page))
    network.detach()
    return first, again


def percent(pid: int, seconds: float) -> float:
    """Return the CPU time of a process in percent of a core."""
    before, began = cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_s(pid) - before) / (time.monotonic() - began)


def measure(address: str, key: str, pid: int, server: str, how: Any) -> list[Figure]:
    """Open the pages of the dashboard (all, if none are given) in a browser and measure each.

    ``server`` is the id of a game server, whose console page is measured as well.
    """
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 860}, locale="en-GB")
        page.add_init_script(SHOWN)
        page.goto(f"{address}/svc/dashboard")
        page.get_by_label("Account key").fill(key)
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.locator("#nav a").first.wait_for()
        links = page.locator("#nav a").evaluate_all("(links) => links.map((link) => link.hash)")
        names = [link.removeprefix("#/") for link in links]
        names += ["accounts/Online_0", f"servers/{server}"]
        pages = [page for page in how.pages.split(",") if page]
        page.goto("about:blank")
        idle, figures = percent(pid, how.seconds), []
        for name in pages or names:
            page.goto(f"{address}/svc/dashboard#/{name}")
            first, again = content_ms(page, how.rounds)
            busy = percent(pid, how.seconds)
            page.goto("about:blank")
            time.sleep(SETTLE_S)
            before, idle = idle, percent(pid, how.seconds)
            figures.append(Figure(name, first, again, busy - (before + idle) / 2))
            print(row(figures[-1]), flush=True)
        return figures


def row(figure: Figure) -> str:
    """Return a row of the table."""
    times = " | ".join(
        f"{value:.0f}"
        for each in (figure.first_ms, figure.again_ms)
        for value in (median(each), p95(each))
    )
    return f"| {figure.page} | {times} | {max(0.0, figure.percent):.1f} % |"


def p95(times: Sequence[float]) -> float:
    """Return the 95th percentile."""
    return sorted(times)[ceil(0.95 * len(times)) - 1]


def main() -> None:
    """Create and start the host, measure the pages, and print the table."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (("accounts", 5000), ("online", 200), ("hunts", 30), ("rounds", 12)):
        options.add_argument(f"--{name}", type=int, default=default)
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("--pages", default="")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "host"
        make(folder, arguments.accounts - arguments.online, arguments.hunts)
        twistd = str(Path(sys.executable).with_name("twistd"))
        command = [twistd, "--nodaemon", "--pidfile=", "svc-stack", "--config", str(folder)]
        with running(command, FIRST, Path(name) / "log", {}):
            holder = port_holder("127.0.0.1", FIRST, lambda _: True)
            assert holder is not None
            with closing(HTTPConnection("127.0.0.1", FIRST, timeout=60)) as connection:
                players = arrive(connection, arguments.online)
                servers = hunt(connection, players[: GROUP * arguments.hunts])
                for player in players:
                    fetch_json(connection, requests.heartbeat(CITY, "island"), player.token)
                key = (folder / OWNER_KEY).read_text().strip()
                server = check(connection, key, arguments.online, arguments.hunts)
            print(f"first content in ms; the medians may be at most {MOST_MS}")
            print("| page | first visit | p95 | stored files | p95 | live updates, of a core |")
            print("|---|---:|---:|---:|---:|---:|")
            with playing(FIRST, players, servers):
                figures = measure(
                    f"http://127.0.0.1:{FIRST}",
                    key,
                    holder.pid,
                    server,
                    arguments,
                )
            with closing(HTTPConnection("127.0.0.1", FIRST, timeout=60)) as connection:
                check(connection, key, arguments.online, arguments.hunts)
    missed = [
        figure.page
        for figure in figures
        if max(median(figure.first_ms), median(figure.again_ms)) > MOST_MS
        or figure.percent > MOST_PERCENT
    ]
    if missed:
        raise SystemExit(f"too slow or too costly: {', '.join(missed)}")


if __name__ == "__main__":
    main()
