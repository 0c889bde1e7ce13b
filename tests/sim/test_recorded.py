"""A flight recorder's file as a script."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svcserver.sim import host
from svcserver.sim.players import WEIGHTS
from svcserver.sim.recorded import ACTS, BadRecord, act_of, recorded
from svcserver.sim.run import Wish, simulate


def line(at: float, who: str, route: str) -> str:
    return f'{{"t":{at},"who":"{who}","route":"{route}","status":200,"ms":1.0}}'


class RecordedTests(SynchronousTestCase):
    def test_acts_are_those_of_the_players(self) -> None:
        self.assertLessEqual(set(ACTS.values()), set(WEIGHTS))

    def test_the_longest_beginning_counts_and_only_whole_words(self) -> None:
        self.assertEqual(act_of("PUT /party/invite/accept/<party_id>"), "accept")
        self.assertEqual(act_of("PUT /party/invite"), "invite")
        self.assertIsNone(act_of("GET /characters"))

    def test_what_nobody_does_is_counted(self) -> None:
        found = recorded([line(5, "a", "GET /motd"), line(6, "", "POST /party")])
        self.assertEqual((found.steps, found.left_out), ((), 2))

    def test_a_line_that_is_none_is_named(self) -> None:
        for bad in ("", "[]", "{}", "nonsense", '{"t":"x","who":"a","route":"b"}'):
            with self.assertRaisesRegex(BadRecord, "line 2"):
                recorded([line(1, "a", "POST /party"), bad])

    def test_it_runs_and_the_same_file_gives_the_same_run(self) -> None:
        lines = [
            line(1000 + at, who, route)
            for at, who, route in (
                (0, "a", "POST /account/api/oauth/token"),
                (3, "b", "POST /heartbeat"),
                (20, "a", "POST /character"),
                (25, "b", "POST /party"),
                (40, "b", "POST /candidate/join"),
            )
        ]
        hashes = set()
        for _ in range(2):
            found = recorded(lines)
            wish = Wish(1, found.players, found.seconds, steps=found.steps)
            result = simulate(wish)
            self.assertEqual(result.violations, [])
            self.assertGreater(result.requests, 8)
            hashes.add(result.hash)
        self.assertEqual(len(hashes), 1)

    def test_a_simulated_evening_is_recorded_and_lived_again(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        plain = host.metagame_environ

        def environ(name: str = "metagame") -> dict[str, str]:
            return plain(name) | {"FLIGHT_RECORDER_DIR": str(folder)}

        self.patch(host, "metagame_environ", environ)
        first = simulate(Wish(3, 4, 300.0))
        [file] = folder.iterdir()
        found = recorded(file.read_text().splitlines())
        self.assertEqual(found.players, 4)
        acts = Counter(one.what for one in found.steps)
        for act in ("log_in", "load", "save", "earn", "poll_party", "heartbeat"):
            self.assertGreater(acts[act], 0, act)
        self.assertLess(found.left_out, first.requests / 2)
        self.patch(host, "metagame_environ", plain)
        again = simulate(Wish(1, found.players, found.seconds, steps=found.steps))
        self.assertEqual(again.violations, [])
        self.assertGreater(again.requests, len(found.steps) / 2)
