"""The same simulation in several processes, with another Python, and from a real host's evening.

Why processes: equal hashes in two interpreters are the point.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import orjson
import pytest
from pytest_twisted import ensureDeferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase

from tests.other_python import OTHER, version_of
from tests.sim.hashes import WORLDS
from tests.support import requirements
from tests.support.joined import joined_metagame, register

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]


@cache
def hashes(python: str, hash_seed: str) -> list[str]:
    """What this interpreter makes of all worlds with this PYTHONHASHSEED."""
    done = subprocess.run(
        [python, "-m", "tests.sim.hashes"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise AssertionError(done.stderr[-2000:])
    return done.stdout.splitlines()


class ProcessTests(SynchronousTestCase):
    # slow: a run in each of two processes that import everything
    def test_equal_seeds_give_equal_bytes_in_two_processes(self) -> None:
        one, other = (hashes(sys.executable, number) for number in ("1", "4711"))
        self.assertEqual(one, other)
        self.assertEqual([line.split()[1] for line in one], ["0"] * len(WORLDS))

    # slow: a run with each of two Pythons, which import everything
    def test_equal_seeds_give_equal_bytes_with_another_python(self) -> None:
        if not OTHER.exists():
            raise requirements.skip("another-python", "`make other-python` has made no .venv/other")
        self.assertNotEqual(version_of(str(OTHER)), version_of(sys.executable))
        self.assertEqual(hashes(str(OTHER), "1"), hashes(sys.executable, "4711"))


def recording(folder: Path) -> Path:
    """The one file of the flight recorder."""
    [file] = folder.glob("flight-*.jsonl")
    return file


# slow: an evening on a real host, then in the simulation
@ensureDeferred
async def test_the_evening_of_a_real_host_is_lived_again(tmp_path: Path) -> None:
    """Record over real connections what two players do; the same file gives the same run."""
    async with joined_metagame(tmp_path, FLIGHT_RECORDER_DIR=str(tmp_path)) as service:
        for name in ("Ann_1", "Bob_1"):
            player = await register(service, name)
            head = {"Authorization": f"Bearer {player['token']}"}
            for method, path, sent in (
                ("POST", "/party", {}),
                ("POST", "/heartbeat", {"map": "", "state": ""}),
                ("GET", "/character", None),
                ("GET", "/banner", None),
            ):
                assert (await service.ask(method, path, sent, head))[0] < 500
    file = recording(tmp_path)
    assert player["token"] not in file.read_text()
    words = [sys.executable, "-m", "svcserver.ctl.main", "simulate", "--from", str(file), "--json"]
    runs = [
        await deferToThread(subprocess.run, words, cwd=ROOT, capture_output=True, timeout=200)
        for _ in range(2)
    ]
    one, other = (orjson.loads(ran.stdout) for ran in runs)
    assert [ran.returncode for ran in runs] == [0, 0]
    assert one["hash"] == other["hash"]
    assert (one["violations"], one["steps"] >= 8, one["requests"] > 8) == (0, True, True)
