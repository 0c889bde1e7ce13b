"""A real host for player tests: game files, news, a picture and a simulated game client."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from attrs import define

from svcserver.launcher.view import VERSION
from tests.ctl.hosts import PATIENCE_S, change, demo_host, read_output, run, stack, value
from tests.support import prestarted, wine
from tests.support.prestarted import Prestarted
from tests.support.processes import eventually, free_port

MB = 1024 * 1024
GAME = Path(__file__).with_name("simulated_game.py")
LAUNCHER = str(Path(sys.executable).with_name("svc-launcher"))
# the game's program as the owner names it; a launcher starts it with Wine
PROGRAM = "Game/Hunt.exe"
COMMAND = "{folder}/game.py -server={server} -AUTH_PASSWORD={key} -out={folder}/played.json"


def picture(red: int, green: int, blue: int, width: int = 640, height: int = 360) -> bytes:
    """Return a PNG image with a soft gradient."""

    def colour(x: int, y: int) -> tuple[int, int, int]:
        return red * (x + y) // (width + height), green * y // height, blue * x // width

    return bitmap(colour, width, height)


def bitmap(colour: Callable[[int, int], tuple[int, int, int]], width: int, height: int) -> bytes:
    """Return a PNG image of these colours."""
    rows = b"".join(
        b"\0" + b"".join(bytes(colour(x, y)) for x in range(width)) for y in range(height)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def players_host(folder: Path, name: str, *, big: int = 3 * MB) -> Path:
    """Prepare a host with ``name`` without starting it."""
    host = demo_host(folder)
    game = host / "game"
    (game / "data").mkdir(parents=True)
    (game / "game.py").write_bytes(GAME.read_bytes())
    (game / PROGRAM).parent.mkdir()
    # a Windows program that runs the Python file beside it; on Linux, ``launcher`` does so
    program = wine.python_program().read_bytes() if wine.is_here() else b"MZ"
    (game / PROGRAM).write_bytes(program)
    (game / PROGRAM).with_suffix(".py").write_bytes(GAME.read_bytes())
    (game / "data" / "big.pak").write_bytes(os.urandom(MB) * (big // MB))
    for number in range(6):
        (game / "data" / f"part {number}.bin").write_bytes(os.urandom(20_000 + number))
    make_manifest(host, "1.4.4")
    (host / "branding").mkdir()
    (host / "branding" / "evening.png").write_bytes(picture(40, 110, 150))
    branding = {"accent": "#e0a84c", "backgrounds": [{"file": "evening.png", "credit": "Olga"}]}
    (host / "branding" / "branding.json").write_text(json.dumps(branding))
    news = [
        {
            "date": "2026-11-20T18:00:00Z",
            "title": "Hunt on Friday",
            "body": "We meet in the city at eight.\nBring potions.",
        }
    ]
    (host / "news.json").write_text(json.dumps(news))
    change(host, "content", "CONTENT_GAME_PROGRAM", PROGRAM)
    change(host, "content", "CONTENT_BRANDING_DIR", str(host / "branding"))
    change(host, "content", "CONTENT_NEWS_FILE", str(host / "news.json"))
    change(host, "metagame", "REGISTRATION_MODE", "INVITECODE")
    change(host, "metagame", "SERVER_NAME", name)
    # all players of the test have one address
    change(host, "gateway", "GATEWAY_RATE_REGISTER", "100,100")
    return host


def make_manifest(host: Path, build: str) -> None:
    """Write the manifest of the host's game files, as an owner does for a new version."""
    made = run(
        "content", "manifest", host / "game", "--build", build, "--out", host / "manifest.json"
    )
    assert made.returncode == 0, made.stderr


@contextmanager
def running(host: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the host's stack and wait until it is ready."""
    with stack(host) as process:
        eventually(lambda: "stack ready" in read_output(host), PATIENCE_S)
        yield process


SYSTEM = ["linux"]  # on which ``launcher`` runs


@pytest.fixture(scope="module", params=["linux", "windows"])
def system(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the tests of a file with the Linux launcher, then with the Windows launcher."""
    if request.param == "windows":
        wine.need_wine()  # a skip here must not leave the next file with "windows"
    SYSTEM[:] = [request.param]
    yield request.param
    SYSTEM[:] = ["linux"]


@pytest.fixture(scope="module")
def host(system: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run a host for the tests of one file on one system."""
    made = players_host(tmp_path_factory.mktemp("host") / "host", "Friday Hunts", big=6 * MB)
    with running(made):
        yield made


def invite(host: Path, uses: int = 1) -> str:
    """Create a join string, as the owner sends it."""
    ran = run("invite", "create", "--uses", uses, "--json", "--config", host)
    assert ran.returncode == 0, ran.stderr
    document: str = json.loads(ran.stdout)["join"]
    return document


def metagame(host: Path) -> str:
    """Return the metagame's own address, which bypasses the gateway."""
    return f"http://127.0.0.1:{value(host, 'metagame', 'PORT')}"


def change_of(home: Path) -> Path:
    """Return the path of a Python file that each launcher of ``home`` runs first.

    The file need not exist.
    """
    return home / "change.py"


def environ_of(home: Path) -> dict[str, str]:
    """Return the environment variables of a launcher that keeps all its files below ``home``."""
    change = change_of(home)
    return {
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "HOME": str(home),
        "SVC_LAUNCHER_HOME": str(home / "launcher"),
        prestarted.CHANGE: change.read_text() if change.exists() else "",
        "SVC_RELAY_PORT": str(free_port()),
        "PYTHONUNBUFFERED": "1",
    }


def start_again(home: Path, *words: str) -> str:
    """Start a second launcher, as a click on a link does; return its output."""
    line = ["--key-file", "--print-link", *words]
    if SYSTEM == ["windows"]:
        return wine.WindowsPC.of(home).run(windows_program(home), *line, **windows_environ(home))
    ran = subprocess.run(
        [LAUNCHER, *line],
        env=environ_of(home),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ran.stdout


@define
class Running:
    """A launcher process and its output."""

    process: Prestarted | subprocess.Popen[str]
    output: IO[str]


def in_home(home: Path, path: Path) -> str:
    """Return a path below a player's home as the launcher shows it."""
    if SYSTEM == ["linux"]:
        return str(path)
    user = wine.WindowsPC.of(home).user.name
    return "\\".join(("C:", "users", user, *path.relative_to(home).parts))


def shown(path: Path) -> str:
    """Return a path of this machine as the player's system names it."""
    return str(path) if SYSTEM == ["linux"] else wine.on_windows(path)


def runner() -> str:
    """Return the program that starts ``game.py`` on the player's system."""
    return sys.executable if SYSTEM == ["linux"] else shown(wine.python_program())


def windows_program(home: Path) -> Path:
    """Return the launcher that is installed on the Windows PC in ``home``."""
    return home / "launcher" / "program" / VERSION / "svc-launcher-cli.exe"


def windows_environ(home: Path) -> dict[str, str]:
    """Return the environment variables of a Windows launcher that keeps its files in ``home``."""
    own = wine.on_windows(home / "launcher")
    return {"SVC_LAUNCHER_HOME": own, "SVC_RELAY_PORT": str(free_port())}


@contextmanager
def launcher(home: Path, *words: str) -> Iterator[Running]:
    """Run a launcher with a new home folder; ``link_of`` returns the link to its page."""
    started = _on_linux if SYSTEM == ["linux"] else _on_windows
    with started(home, *words) as process:
        yield process


@contextmanager
def _on_windows(home: Path, *words: str) -> Iterator[Running]:
    home.mkdir(parents=True, exist_ok=True)
    with wine.windows_pc(home, home) as pc:
        program = windows_program(home)
        pc.install(program.parents[1])
        with pc.start(program, "--key-file", *words, **windows_environ(home)) as process:
            assert process.stdout is not None
            try:
                yield Running(process, process.stdout)
            finally:
                process.kill()


@contextmanager
def _on_linux(home: Path, *words: str) -> Iterator[Running]:
    """Run a launcher; a script in place of Wine runs the simulated game with Python."""
    program = home / "bin" / "wine"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        f'#!/bin/sh\ngame=$1\nshift\nexec {sys.executable} "${{game%.exe}}.py" "$@"\n'
    )
    program.chmod(0o755)
    messages, deliveries = os.pipe()
    with os.fdopen(messages) as reply:
        try:
            line = ["--key-file", *words]
            process = prestarted.start(
                line, environ_of(home), home, deliveries, program="svc-launcher"
            )
        finally:
            os.close(deliveries)
        try:
            yield Running(process, reply)
        finally:
            process.terminate()
            reply.read()
            process.wait(PATIENCE_S)


def link_of(launcher: Running) -> str:
    """Return the link to the launcher's page from the launcher's output."""
    for line in launcher.output:
        result = re.search(r"http://127\.0\.0\.1:\d+/#[0-9a-f]+", line)
        if result:
            return result[0]
    raise AssertionError("the launcher has ended")
