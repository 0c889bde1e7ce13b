"""A real launcher that is killed while it downloads large files.

The tests count the bytes that it downloads twice.
"""

import math
import random
import time
from pathlib import Path

from attrs import define

from tests.live.players_terminal import Player
from tests.support.big_files import BLOCK, Served, host_of, sha256

IN_FLIGHT = 48 << 20  # bytes in the sockets and pieces of four connections, which a kill costs


@define
class Outcome:
    """The measurements of one download."""

    total: int
    sent: int
    memory: int
    idle_memory: int
    seconds: float


def download(folder: Path, count: int, size: int, kills: int, patience_s: float) -> Outcome:
    """Download ``count`` files of ``size`` bytes with a launcher that is killed ``kills`` times."""
    with host_of(count, size) as served:
        begun, most = time.monotonic(), 0
        killed: list[tuple[dict[str, int], int]] = []
        player = Player(folder)
        player.say(f"svc://join?v=1&host=127.0.0.1&port={served.port}&code=ABCD-EFGH&name=Big")
        player.hears("Type agree")
        player.say("agree")
        player.hears("choose a name")
        player.say("name Bo_1")
        player.hears("Type get")
        idle = player.most_memory()
        player.say("get")
        chance = random.Random(size)
        for number in range(kills):
            enough = served.total * (number + chance.random()) / (kills + 1)
            # so that the download is not complete before the kill
            served.hold(min(enough + IN_FLIGHT, served.total - BLOCK))
            wait_for(served, enough, patience_s)
            most = max(most, player.most_memory())
            player.kill()
            served.hold(math.inf)
            stored, before = written(folder, served), len(served.blocks)
            player = Player(folder)
            player.hears("Type get", patience_s)
            player.say("get")
            killed.append((stored, before))
        player.hears("Type play", patience_s)
        most = max(most, player.most_memory())
        player.say("quit")
        player.end()
        seconds = time.monotonic() - begun
        check(folder, served)
        for stored, before in killed:
            resumed(served, stored, before)
        return Outcome(served.total, served.sent.total(), most, idle, seconds)


def wait_for(served: Served, sent: float, patience_s: float) -> None:
    """Wait until the host has sent ``sent`` bytes; fail after ``patience_s`` seconds."""
    until = time.monotonic() + patience_s
    while served.sent.total() < sent:
        assert time.monotonic() < until, "the download stands still"
        time.sleep(0.02)  # the host's counter sends no notifications


def written(folder: Path, served: Served) -> dict[str, int]:
    """Return how many bytes of each file are on disk; a verified file counts in full."""
    [game] = (folder / "games").iterdir()
    parts = game / ".svc-launcher" / "parts"
    results = {}
    for name, size in served.sizes.items():
        part = parts / f"{served.hashes[name]}.part"
        if part.with_suffix(".whole").exists():
            results[name] = size
        else:
            results[name] = part.stat().st_size if part.exists() else 0
    return results


def resumed(served: Served, stored: dict[str, int], before: int) -> None:
    """Assert that after the kill the launcher requested no byte that it had already written."""
    for name, start in served.blocks[before:]:
        assert start >= stored[name], (name, start, stored[name])
        assert stored[name] < served.sizes[name], name


def check(folder: Path, served: Served) -> None:
    """Assert that every file is complete and in its place."""
    [game] = (folder / "games").iterdir()
    for name, size in served.sizes.items():
        assert (game / name).stat().st_size == size
    first = next(iter(served.sizes))
    assert sha256(first, served.sizes[first]) == served.hashes[first]
    parts = list((game / ".svc-launcher" / "parts").iterdir())
    assert parts == []
