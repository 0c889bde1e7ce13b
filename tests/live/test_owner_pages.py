"""Every shell block of README and of the owner's pages, run as an owner would paste it.

An unmarked block runs with an empty HOME. ``svcctl`` and ``twistd`` are the real programs, on free
ports; a service keeps running after the block that started it. ``make`` only prints its commands,
and ``git`` does nothing. The programs of README's blocks start as an owner starts them. The pages
have ten times as many blocks, so their programs are forks (``tests/support/prestarted.py``). A
block that begins with ``# needs:`` (root, systemd, another machine) does not run, but must parse,
and its ``svcctl`` commands and options must exist.

Real processes are needed because the blocks are shell commands.
"""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest

from tests.ctl.hosts import row_of, run
from tests.support import prestarted
from tests.support.pages import Block, blocks, commands, exists

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
ORDER = (
    "install",
    "configure",
    "hosting",
    "relay",
    "chat",
    "dashboard",
    "backup",
    "upgrade",
    "troubleshoot",
)
SHIM = Path(__file__).with_name("owner_shim.py")
PATIENCE_S = 300


def pages() -> list[Path]:
    """Return README and the owner's pages."""
    return [ROOT / "README.md", *sorted((ROOT / "docs" / "owners").glob("*.md"))]


def shell_blocks() -> list[Block]:
    return [block for page in pages() for block in blocks(page) if block.word == "sh"]


def test_every_block_of_commands_is_marked_as_such() -> None:
    for page in pages():
        for block in blocks(page):
            if re.search(r"^\s*(svcctl|twistd|make|sudo|\.venv/)", block.text, re.MULTILINE):
                assert block.word == "sh", (
                    f"{block.page}: a shell block without its word: {block.text}"
                )
    assert len(shell_blocks()) > 20


def test_every_command_of_every_block_exists_with_its_options() -> None:
    result = 0
    for block in shell_blocks():
        subprocess.run(["bash", "-n"], input=block.text, text=True, check=True, timeout=30)
        for words in commands(block.text):
            exists(words)
            result += 1
    assert result > 20


def test_every_command_that_a_page_mentions_exists() -> None:
    for page in pages():
        for span in re.findall(r"`svcctl ([^`]+)`", page.read_text().replace("\n", " ")):
            words = [entry for entry in shlex.split(span) if entry != "..."]
            if words and not words[0].startswith("-"):
                with suppress(click.BadOptionUsage):  # prose may name an option without its value
                    exists(words)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Create a HOME folder with a clone; end the processes started there afterwards."""
    home = tmp_path_factory.mktemp("owner")
    programs = home / "clone" / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("svcctl", "twistd"):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {SHIM} {name} "$@"\n')
    outside = home / "outside"
    outside.mkdir()
    for name in ("make", "git", "crontab"):
        (outside / name).write_text(f'#!/bin/sh\nexec {sys.executable} {SHIM} {name} "$@"\n')
    for entry in (*programs.iterdir(), *outside.iterdir()):
        entry.chmod(0o755)
    yield home
    for entry in sorted(home.glob("*.pid")):
        try:
            os.killpg(int(entry.read_text()), signal.SIGTERM)
        except ProcessLookupError:
            continue


def paste(home: Path, blocks: list[Block], **more: str) -> None:
    """Run the blocks in one shell, one after another, as in a terminal that stays open."""
    text = "set -eo pipefail\ntest ! -f ~/.profile || . ~/.profile\n"
    text += "\n".join(block.text for block in blocks if not block.needs)
    done = subprocess.run(
        ["bash", "-c", text],
        cwd=home / "clone",
        env={
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PATH": f"{home / 'outside'}:/usr/bin:/bin",
            "SVC_OWNER_PORTS": f"{row_of(12, socket.SOCK_STREAM)},{row_of(8, socket.SOCK_DGRAM)}",
            "SVC_OWNER_ROOT": str(ROOT),
            **more,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, f"{blocks[0].page}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


# slow: a whole stack, and commands as an owner starts them
def test_the_readme_can_be_pasted(home: Path) -> None:
    paste(home, [block for block in shell_blocks() if block.page == "README.md"])
    assert (home / "clone" / "my-host" / "owner.key").is_file()


# slow: some fifty commands, two stacks, backups and restores
def test_the_commands_of_the_owner_pages_run_in_reading_order(home: Path) -> None:
    for entry in home.glob("*.pid"):  # stop README's host, so that the next host can use its ports
        os.killpg(int(entry.read_text()), signal.SIGTERM)
        entry.unlink()
    (home / "crontab").write_text("0 1 * * * an-entry-of-the-owner\n")
    others = sorted({path.stem for path in pages()[1:]} - set(ORDER))
    for name in (*ORDER, *others):
        mine = [block for block in shell_blocks() if block.page == f"{name}.md"]
        if mine:
            paste(home, mine, SVC_OWNER_SOCKET=prestarted.socket_path())
    [copy, *_] = (home / "backup").glob("game-*.db")
    restored = run("db", "restore", copy, "--stop", "--config", home / "game")
    assert restored.returncode == 0, restored.stderr
    assert list((home / "game").glob("svc.db.before-restore-*"))
    assert list((home / "game" / "backups").glob("svc-backup-*.tar.gz"))
    assert (home / "crontab").read_text() == "0 1 * * * an-entry-of-the-owner\n"
