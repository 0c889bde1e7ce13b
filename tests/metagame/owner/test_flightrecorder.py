"""FLIGHT_RECORDER_DIR: what is recorded, what never is, and its bound."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.sim.recorded import recorded
from tests.support.game import Game


class FlightRecorderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(TemporaryDirectory()))

    def game(self, **environ: str) -> Game:
        return Game(self, **{"FLIGHT_RECORDER_DIR": str(self.folder)} | environ)

    @property
    def file(self) -> Path:
        return self.folder / "flight-61000.jsonl"

    def records(self) -> list[Any]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]

    def test_off_unless_asked_for(self) -> None:
        game = self.game(FLIGHT_RECORDER_DIR="")
        game.browse("POST", "/party", token=game.player("Ann_1").token, json={})
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_request_is_its_row_and_a_word_for_the_player(self) -> None:
        game = self.game()
        ann, bob = game.player("Ann_1"), game.player("Bob_1")
        for one in (ann, bob, ann):
            game.browse("POST", "/party", token=one.token, json={"hello": "secret words"})
        game.browse("GET", f"/guild/{ann.key}?k={ann.key}", token=ann.token)
        told = self.records()
        parties = [one for one in told if one["route"] == "POST /party"]
        self.assertEqual([one["status"] for one in parties], [200, 200, 200])
        first, second, third = (one["who"] for one in parties)
        self.assertEqual(first, third)
        self.assertNotEqual(first, second)
        text = self.file.read_text()
        for word in (ann.key, ann.token, ann.id, ann.name, bob.id, "secret words"):
            self.assertNotIn(word, text)
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)

    def test_of_an_unknown_path_nothing_is_kept(self) -> None:
        game = self.game()
        ann = game.player("Ann_1")
        game.browse("GET", f"/nothing/{ann.id}/{ann.name}", token=ann.token)
        self.assertEqual(self.records()[-1]["route"], "unknown")
        for word in (ann.id, ann.name, "nothing"):
            self.assertNotIn(word, self.file.read_text())

    def test_it_stays_within_its_bound(self) -> None:
        self.file.write_text("x" * (1 << 19))
        game = self.game(FLIGHT_RECORDER_MB="1")
        token = game.player("Ann_1").token
        game.browse("POST", "/party", token=token, json={})
        self.assertTrue(self.records())
        older = self.file.with_name(f"{self.file.name}.1")
        self.assertLessEqual(older.stat().st_size, 1 << 19)
        self.assertLessEqual(self.file.stat().st_size + older.stat().st_size, 1 << 20)

    def test_a_folder_that_cannot_be_written_is_told_once(self) -> None:
        with capturedLogs() as events:
            game = self.game(FLIGHT_RECORDER_DIR=str(self.folder / "none"))
            game.browse("POST", "/party", token=game.player("Ann_1").token, json={})
        warnings = [one for one in events if one["log_level"] is LogLevel.warn]
        self.assertEqual(len(warnings), 1)

    def test_a_recording_becomes_a_script(self) -> None:
        game = self.game()
        token = game.player("Ann_1").token
        game.browse("POST", "/party", token=token, json={})
        game.browse("GET", "/character", token=token)
        found = recorded(self.file.read_text().splitlines())
        acts = [one.what for one in found.steps]
        self.assertEqual(found.players, 1)
        self.assertEqual(acts[0], "log_in")
        self.assertEqual(acts[-2:], ["poll_party", "load"])
