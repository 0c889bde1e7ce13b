"""A player on Windows, from the unzipped launcher to a hunt, an update and the removal.

Real processes are needed because Windows programs run under Wine, against a real host.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from svcserver.players.requests import HUNTS
from tests.ctl.hosts import run
from tests.live.players_host import MB, invite, players_host, running
from tests.live.players_terminal import Player
from tests.support.processes import eventually
from tests.support.wine import WindowsPC, windows_pc, windows_zip

pytestmark = pytest.mark.live

BIG = 200 * MB
DOWNLOAD_S = 600
NEWER = "9.9.9"
COMMAND = "{folder}/Game/Hunt.exe -server={server} -AUTH_PASSWORD={key}"
SCHEME = r"HKCU\Software\Classes\svc\shell\open\command"


def newer_zip(folder: Path) -> Path:
    """Return the launcher for Windows as a newer version."""
    newer = folder / "newer.zip"
    with zipfile.ZipFile(windows_zip()) as old, zipfile.ZipFile(newer, "w") as new:
        for entry in old.infolist():
            text = old.read(entry)
            if "/app/svc_launcher-" in entry.filename:
                _, _, name = entry.filename.partition(".dist-info")
                entry.filename = f"svc-launcher/app/svc_launcher-{NEWER}.dist-info{name}"
                lines = text.decode().splitlines(keepends=True)
                text = "".join(
                    f"Version: {NEWER}\n" if line.startswith("Version:") else line for line in lines
                ).encode()
            new.writestr(entry, text)
    return newer


def windows_host(folder: Path) -> Path:
    """Prepare a host that offers a newer launcher."""
    host = players_host(folder / "host", "Friday Hunts", big=BIG)
    offered = run("content", "launcher", newer_zip(folder), "--config", host)
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


# slow: a stack, 200 MB, and many starts under Wine
def test_player_on_windows_hunts_updates_and_removes(tmp_path: Path) -> None:
    with windows_pc(tmp_path) as pc:
        host = windows_host(tmp_path)
        own = pc.local / "svc-launcher"
        with running(host):
            with playing(pc, pc.unzipped / "svc-launcher-cli.exe") as player:
                player.hears("Type help")
                eventually(lambda: "svc-launcher.exe" in pc.registered(SCHEME))
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
                player.hears("Type get")
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


def lists(player: Player, line: str) -> bool:
    """Ask who is online; return whether this line has been printed."""
    player.say("people")
    while not player.lines.empty():
        player.history.append(player.lines.get())
    return any(line in printed for printed in player.history)


def size_of(folder: Path) -> int:
    """Return the size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
