"""A player on Windows, from the unzipped launcher to a hunt, an update and the removal.

Real processes are needed because Windows programs run under Wine, against a real host.
"""

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from svcserver.launcher import one_instance
from svcserver.players.requests import HUNTS
from tests.ctl.hosts import run
from tests.live.players_host import MB, invite, players_host, running
from tests.live.players_terminal import Player
from tests.support.processes import SELDOM_S, eventually
from tests.support.wine import WindowsPC, newer_zip, windows_pc

pytestmark = pytest.mark.live

BIG = 200 * MB
DOWNLOAD_S = 600
NEWER = "9.9.9"
COMMAND = "{folder}/Game/Hunt.exe -server={server} -AUTH_PASSWORD={key}"
SCHEME = r"HKCU\Software\Classes\svc\shell\open\command"


def windows_host(folder: Path, big: int) -> Path:
    """Prepare a host that offers a newer launcher; ``big`` is the size of the game."""
    host = players_host(folder / "host", "Friday Hunts", big=big)
    offered = run("content", "launcher", newer_zip(folder, NEWER), "--config", host)
    assert offered.returncode == 0, offered.stderr
    return host


@contextmanager
def playing(pc: WindowsPC, program: Path) -> Iterator[Player]:
    """Run a launcher with a console until the block ends."""
    more = {**pc.environ, "SVC_LAUNCHER_HOME": ""}
    # Wine passes no files as standard streams
    command = ("sh", "-c", 'exec wine "$0" "$@" 2>&1', str(program))
    player = Player(pc.prefix, command, more, ())
    try:
        yield player
    finally:
        player.process.kill()
        player.end()


# slow: 150 s: a stack, 200 MB, and many starts under Wine
def test_player_on_windows_hunts_updates_and_removes(tmp_path: Path) -> None:
    with windows_pc(tmp_path) as pc:
        host = windows_host(tmp_path, BIG)
        own = pc.local / "svc-launcher"
        with running(host):
            with playing(pc, pc.unzipped / "svc-launcher-cli.exe") as player:
                player.hears("Type help")
                eventually(lambda: "svc-launcher.exe" in pc.registered(SCHEME), pause_s=SELDOM_S)
                player.say("quit")
                player.end()
            [installed] = own.glob("program/*/svc-launcher-cli.exe")
            with playing(pc, installed) as player:
                player.hears("Type help")
                pc.open_link(invite(host))
                player.hears("Type agree to continue.")
                player.say("agree")
                player.hears("choose a name")
                player.say("name Bo_Windows")
                player.hears("must be downloaded. Type get.")
                player.say("get")
                eventually(lambda: 40 * MB < size_of(own / "games") < BIG)
                player.kill()
            with playing(pc, installed) as player:
                player.hears("Take launcher updates from Friday Hunts?")
                player.say("updates yes")
                player.hears(f"Version {NEWER} of the launcher is installed.")
                player.say("get")
                player.hears("the game is ready. Type play.", DOWNLOAD_S)
                player.say(f"set command {COMMAND} -hunt={HUNTS[0]}")
                player.say("play")
                player.hears("you are playing as Bo_Windows.")
                [game] = (own / "games").iterdir()
                eventually((game / "Game" / "played.json").exists)
                eventually(partial(lists, player, "Bo_Windows, on a hunt"), pause_s=1.0)
                player.say("stop")
                player.hears("Type play")
                player.say("leave")
                player.say("hosts")
                player.hears("No host yet")
                player.say("quit")
                player.end()
            version = pc.run(own / "program" / NEWER / "svc-launcher-cli.exe", "--version")
            assert version.startswith(f"svc-launcher {NEWER}")
        assert "removed from this PC" in pc.run(installed, "remove")
        assert pc.registered(SCHEME) == ""
        eventually(lambda: not (own / "program").exists())


class PageClient:
    """A browser's requests to the page of the running launcher."""

    def __init__(self, state: Path) -> None:
        launcher = one_instance.find(state)
        link = launcher.hand_over("") if launcher is not None else None
        self.base, _, token = (link or "").partition("/#")
        assert token
        self.session = ""
        self.session = self.request("/api/enter", {"token": token})["session"]

    def request(self, path: str, body: Any = None) -> Any:
        """Send a request and return its reply."""
        data = None if body is None else orjson.dumps(body)
        headers = {"X-Launcher-Session": self.session, "Origin": self.base}
        request = urllib.request.Request(self.base + path, data, headers)  # noqa: S310 - our own
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
            return orjson.loads(reply.read())

    def act(self, action: str, **body: Any) -> None:
        """Carry out an action for the only host."""
        [host] = self.request("/api/state")["hosts"]
        self.request(f"/api/hosts/{host['id']}/{action}", body)

    def wait_for(self, stage: str) -> None:
        """Wait until the launcher's page reports ``stage`` for the only host."""
        eventually(lambda: self.request("/api/state")["hosts"][0]["stage"] == stage, 90, 0.5)


# slow: 50 s: a stack, and many starts under Wine
def test_windowed_launcher_restarts_as_the_new_version(tmp_path: Path) -> None:
    with windows_pc(tmp_path) as pc:
        host = windows_host(tmp_path, 3 * MB)
        state = pc.local / "svc-launcher" / "state"
        words = ("--print-link", "--key-file", invite(host))
        with running(host), pc.start(pc.unzipped / "svc-launcher.exe", *words) as process:
            eventually((state / "running.json").exists, 90)
            page = PageClient(state)
            page.wait_for("invited")
            page.act("agree")
            page.act("choose", name="Bo_Windows")
            page.wait_for("incomplete")
            page.act("fetch")
            page.wait_for("ready")
            eventually(lambda: page.request("/api/state")["update"]["host"], 90, 0.5)
            page.act("updates", take=True)
            eventually(lambda: page.request("/api/state")["update"]["can_restart"], 180, 0.5)
            command = f"{COMMAND} -hunt={HUNTS[0]}"
            page.act("settings", folder="", command=command, runner="", speed_limit=0)
            page.wait_for("ready")
            page.act("play")
            page.wait_for("playing")
            [game] = (pc.local / "svc-launcher" / "games").iterdir()
            eventually((game / "Game" / "played.json").exists, 90)
            assert page.request("/api/state")["update"]["can_restart"] is False
            assert page.request("/api/restart", {})["sentence"]
            before = (state / "running.json").read_bytes()
            page.act("stop")
            eventually(lambda: has_changed(state / "running.json", before), 90)
            new = PageClient(state)
            shown = new.request("/api/state")
            assert (shown["version"], shown["update"]["text"]) == (NEWER, "")
            current = pc.local / "svc-launcher" / "program" / "current.txt"
            eventually(lambda: current.read_text() == NEWER)
            new.request("/api/quit", {})
            process.communicate(timeout=90)


def has_changed(file: Path, before: bytes) -> bool:
    """Return whether the file exists with content other than ``before``."""
    return file.exists() and file.read_bytes() != before


def lists(player: Player, line: str) -> bool:
    """Ask the launcher who is online; return whether any line that it printed contains ``line``."""
    player.say("people")
    while not player.lines.empty():
        player.history.append(player.lines.get())
    return any(line in printed for printed in player.history)


def size_of(folder: Path) -> int:
    """Return the size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
