"""A game started by a wrapper program such as Wine or Proton ends with the wrapper.

Real processes are needed because the launcher ends game processes.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from svcserver.launcher.playing import LOOK_S, PATIENCE_S, Game, RunningProgram, spawn
from tests.support.processes import eventually

pytestmark = pytest.mark.live

# The wrapper sets its own traps before it starts the game.
WRAPPER = """
{own}
sh -c '{deafness} echo $$ > inner; while :; do sleep 0.1; done' &
while :; do sleep 0.1; done
"""


@pytest.fixture
def processes() -> Iterator[list[RunningProgram]]:
    """Collect the started processes and end them after the test."""
    made: list[RunningProgram] = []
    yield made
    for item in made:
        item.kill()


def game_of(clock: Clock, processes: list[RunningProgram], ended: Callable[[int], None]) -> Game:
    """Return a game whose processes are recorded, so that they are ended after the test."""

    def remembered(*arguments: Any) -> RunningProgram:
        processes.append(spawn(*arguments))
        return processes[-1]

    return Game(clock, ended, remembered)


def started(folder: Path, game: Game, deafness: str = "", own: str = "") -> int:
    """Start the wrapper; return the pid of the game that it started, which may ignore SIGTERM."""
    command = ["/bin/sh", "-c", WRAPPER.format(deafness=deafness, own=own)]
    game.start(command, str(folder), os.environ)
    inner = folder / "inner"
    eventually(lambda: inner.exists() and inner.read_text().endswith("\n"))
    return int(inner.read_text())


def is_there(pid: int) -> bool:
    """Return whether the process runs; a zombie counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_stopping_a_game_ends_its_wrappers_child_processes(
    tmp_path: Path, processes: list[RunningProgram]
) -> None:
    clock, ended = Clock(), list[int]()
    game = game_of(clock, processes, ended.append)
    inner = started(tmp_path, game)
    assert os.getpgid(inner) != os.getpgid(0)
    game.stop()
    eventually(lambda: not is_there(inner))
    eventually(lambda: (clock.advance(LOOK_S), not game.running)[1])
    assert (ended, clock.getDelayedCalls()) == ([], [])


def test_a_deaf_game_is_ended_although_its_wrapper_is_gone(
    tmp_path: Path, processes: list[RunningProgram]
) -> None:
    clock = Clock()
    game = game_of(clock, processes, lambda _: None)
    inner = started(tmp_path, game, 'trap "" TERM;', 'trap "echo bye > asked; exit" TERM;')
    game.stop()
    eventually((tmp_path / "asked").exists)
    clock.pump([LOOK_S] * 4)
    assert is_there(inner)
    assert game.running
    clock.pump([LOOK_S] * round(PATIENCE_S / LOOK_S))
    eventually(lambda: not is_there(inner))
    eventually(lambda: (clock.advance(LOOK_S), not game.running)[1])
    assert clock.getDelayedCalls() == []
