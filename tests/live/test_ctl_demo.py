"""``svcctl demo --once``, also run by ``make run ONCE=1``: it names the link that is broken.

A link is one of the programs through which a player's request passes. Real processes are needed
because the demo is a process tree that must have ended completely.
"""

import os
import re
import shlex
import signal
import socket
import sqlite3
import ssl
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from svcserver.edge.invite import decode
from tests.ctl.hosts import PATIENCE_S, change, demo_host, demo_once, value
from tests.live import evening
from tests.live.players_terminal import Player
from tests.support import prestarted
from tests.support.processes import eventually
from tests.support.proves import proves

README = Path(__file__).parents[2] / "README.md"


def story(deliveries: str) -> list[str]:
    """Return the output without times, names and numbers, so that two runs can be compared."""
    plain = re.sub(r"_[0-9a-f]{4}\b|(?<=Evening)[0-9a-f]{4}|[0-9]+", "#", deliveries)
    return [re.sub(r"^ *#\.# s +", "", line) for line in plain.splitlines()]


# slow: a stack of six processes, and an evening of four players
@proves("svcctl demo")
def test_an_evening_on_a_fresh_host_goes_well(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    ran = demo_once(folder, players=4)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    readme = README.read_text()
    shown = readme[readme.index("the stack runs:") : readme.index("nothing failed or lost")]
    lines = iter(story(ran.stdout))
    for line in story(shown + "nothing failed or lost"):  # some of the lines, in their order
        assert line in lines, ran.stdout
    for word in ("registered", "loaded", "city", "saves", "byte for byte", "all went well"):
        assert word in ran.stdout
    with closing(sqlite3.connect(folder / "svc.db")) as db:
        [(accounts,)] = db.execute("SELECT count(*) FROM accounts").fetchall()
        [(saves,)] = db.execute(
            "SELECT count(*) FROM character_saves WHERE reason = 'save:client'"
        ).fetchall()
    assert (accounts, saves) == (5, 12)
    [city] = (folder / "gameserver-logs").glob("city-*.log")
    # the game server has received SVC_METAGAME_URL of deploy.env
    assert "metagame answered 200" in city.read_text()
    log = (folder / "stack.log").read_text()
    assert "UUK_" not in log
    assert value(folder, "deploy", "METAGAME_API_KEY") not in log


# slow: a stack of six processes, and an evening of two players
def test_the_demo_works_with_a_game_server_that_never_answers(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    program = folder / "game-server"
    stand_in = value(folder, "deploy", "GAMESERVER_BINARY_PATH")
    program.write_text(f'#!/bin/sh\nexec {stand_in} "$@" -sim-hang\n')
    program.chmod(0o755)
    change(folder, "deploy", "GAMESERVER_BINARY_PATH", str(program))
    ran = demo_once(folder)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert "all were matched into the city, which runs on UDP port" in ran.stdout
    assert "their game servers run on UDP port" in ran.stdout


@contextmanager
def kept_running(folder: Path) -> Iterator[list[str]]:
    """Yield the lines that ``make run`` has printed by the time it waits for Ctrl-C."""
    printed = folder.with_name("printed.txt")
    words = ["demo", "--config", str(folder), "--players", "1", "--hunts", "0"]
    with printed.open("wb") as out:
        process = prestarted.start(words, os.environ, Path.cwd(), out.fileno(), program="svcctl")
    try:
        eventually(lambda: "Ctrl-C stops everything." in printed.read_text(), PATIENCE_S)
        yield printed.read_text().splitlines()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)


# slow: a stack of six processes, and a launcher
def test_demo_prints_a_page_and_a_command_that_reach_the_host(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    with kept_running(folder) as lines:
        [dashboard] = [entry for entry in lines if entry.startswith("dashboard")]
        with urllib.request.urlopen(dashboard.split()[1], timeout=60) as answer:  # noqa: S310
            assert b"dashboard" in answer.read()
        at = lines.index("What a player would open:")
        page, link, command = (line.strip() for line in lines[at + 1 : at + 4])
        trusting = ssl.create_default_context(cafile=folder / "gateway-cert.pem")
        with urllib.request.urlopen(page.split()[0], timeout=60, context=trusting) as answer:  # noqa: S310
            assert answer.status == 200
            assert b"How to play here" in answer.read()
        assert decode(link).port == int(value(folder, "gateway", "GATEWAY_PORT"))
        program, arguments = shlex.split(command)[-2:]
        assert arguments == link
        player = Player(tmp_path / "player", (program, arguments))
        try:
            player.hears("Type agree to continue.")
            player.say("agree")
            player.hears("choose a name")
            player.say("name Passer_by")
            player.hears("must be downloaded. Type get.")
            player.say("quit")
            player.end()
        finally:
            player.process.kill()


def other_key(folder: Path) -> None:
    change(folder, "deploy", "METAGAME_API_KEY", "k" * 64)


def no_program(folder: Path) -> None:
    change(folder, "deploy", "GAMESERVER_BINARY_PATH", str(folder / "nothing-here"))


def silent_program(folder: Path) -> None:
    change(folder, "deploy", "GAMESERVER_ARGS", "-server -sim-hang")


def dying_program(folder: Path) -> None:
    change(folder, "deploy", "GAMESERVER_ARGS", "-server -sim-exit=3")


def other_signing_key(folder: Path) -> None:
    second = demo_host(folder.with_name("other"))
    public = value(second, "metagame", "AUTH_SIGNING_PUBKEY_B64")
    change(folder, "metagame", "AUTH_SIGNING_PUBKEY_B64", public)


def no_matchmaking(folder: Path) -> None:
    change(folder, "metagame", "MATCHMAKING_MODE", "DISABLED")


def no_registration(folder: Path) -> None:
    change(folder, "metagame", "REGISTRATION_MODE", "NONE")


def broken_database(folder: Path) -> None:
    (folder / "svc.db").write_bytes(b"this was a database once" * 1000)


def other_gateway_secret(folder: Path) -> None:
    change(folder, "gateway", "GATEWAY_SECRET", "g" * 40)


def other_allowlist_secret(folder: Path) -> None:
    change(folder, "allowlist", "ALLOWLIST_SECRET", "a" * 40)


def other_gateway_key(folder: Path) -> None:
    second = demo_host(folder.with_name("other"))
    (second / "gateway-key.pem").replace(folder / "gateway-key.pem")


def lost_file(folder: Path) -> None:
    (folder / "game" / "data.pak").unlink()


def changed_file(folder: Path) -> None:
    path = folder / "game" / "data.pak"
    path.write_bytes(b"x" * path.stat().st_size)


def unexecutable_program(folder: Path) -> None:
    program = folder / "game-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o600)
    change(folder, "deploy", "GAMESERVER_BINARY_PATH", str(program))


def chat_off(folder: Path) -> None:
    change(folder, "metagame", "CHAT", "0")


def chat_elsewhere(folder: Path) -> None:
    change(folder, "gateway", "GATEWAY_WS_URL", "http://127.0.0.1:9")


def store_off(folder: Path) -> None:
    change(folder, "metagame", "STORE", "off")


def deploy_elsewhere(folder: Path) -> None:
    change(folder, "metagame", "DEPLOYSERVER_URL", "127.0.0.1:9")


def no_public_address(folder: Path) -> None:
    change(folder, "deploy", "MY_IP", "")


def no_memory(folder: Path) -> None:
    change(folder, "deploy", "GAMESERVER_MEMORY_GUARD", "1")
    change(folder, "deploy", "GAMESERVER_MIN_FREE_MB", "999999999")


Breaks = list[tuple[Callable[[Path], None], str]]
BREAKS: Breaks = [
    (other_key, "game-server key"),
    (no_program, "game server"),
    (silent_program, "game server"),
    (unexecutable_program, "game server"),
    (deploy_elsewhere, "deploy"),
    (no_public_address, "deploy"),
    (no_memory, "deploy"),
    (chat_off, "chat"),
    (chat_elsewhere, "chat"),
    (store_off, "store"),
    (other_signing_key, "metagame"),
    (no_matchmaking, "metagame"),
    (no_registration, "metagame"),
    (other_gateway_secret, "gateway"),
    (other_allowlist_secret, "gateway"),
    (lost_file, "content"),
    (changed_file, "content"),
]


BREAKS_OF_THE_START: Breaks = [
    (broken_database, "metagame"),
    (other_gateway_key, "gateway"),
    (dying_program, "game server"),  # and a fault during the session
]


def names(breaks: Breaks) -> list[str]:
    return [item.__name__ for item, _ in breaks]


# slow: 80 s: the services of a host; of one that is silent the evening waits for an answer
@proves("svcctl demo")
@pytest.mark.parametrize(("damage", "link"), BREAKS, ids=names(BREAKS))
def test_a_broken_link_is_named(tmp_path: Path, damage: Callable[[Path], None], link: str) -> None:
    folder = demo_host(tmp_path / "host")
    damage(folder)
    with evening.services(folder):
        named(evening.play(folder), link)


# slow: a stack of six processes each time
@proves("svcctl demo")
@pytest.mark.parametrize(("damage", "link"), BREAKS_OF_THE_START, ids=names(BREAKS_OF_THE_START))
def test_a_broken_link_is_named_after_the_start_of_a_stack(
    tmp_path: Path, damage: Callable[[Path], None], link: str
) -> None:
    folder = demo_host(tmp_path / "host")
    damage(folder)
    named(demo_once(folder), link)


def named(ran: subprocess.CompletedProcess[str], link: str) -> None:
    assert ran.returncode == 1, ran.stdout
    [line] = ran.stderr.splitlines()
    assert line.startswith(f"svcctl: the session failed at the {link}: "), line
    assert "all went well" not in ran.stdout


TAKEN = [
    ("metagame", "PORT"),
    ("deploy", "PORT"),
    ("content", "PORT"),
    ("allowlist", "ALLOWLIST_PORT"),
    ("gateway", "GATEWAY_PORT"),
    ("relay", "SVC_RELAY_PORT"),
]


# slow: a stack of six processes each time
@proves("svcctl demo")
@pytest.mark.parametrize(("component", "variable"), TAKEN)
def test_a_component_that_cannot_run_is_named(
    tmp_path: Path, component: str, variable: str
) -> None:
    folder = demo_host(tmp_path / "host")
    with closing(socket.socket()) as second:
        second.bind(("127.0.0.1", int(value(folder, component, variable))))
        second.listen()
        ran = demo_once(folder)
    assert ran.returncode == 1, ran.stdout
    [line] = ran.stderr.splitlines()
    assert line.startswith(f"svcctl: the session failed at the {component}: "), line
