"""The setting LOG_BODIES. Spec: 1 §4 convention 6."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from twisted.logger import LogLevel, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.owner import bodylog
from svcserver.metagame.owner.bodylog import MAX_BODY, shown
from tests.support.game import Game
from tests.support.proves import proves

KEY = "UUK_" + "ab" * 24
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl"


class BodyLogTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = Path(self.enterContext(TemporaryDirectory()))
        self.file = folder / "bodies.log"

    def game(self, **environ: str) -> Game:
        return Game(self, **{"LOG_BODIES": "1", "BODY_LOG_FILE": str(self.file)} | environ)

    def records(self) -> list[Any]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]

    @proves("convention 6: LOG_BODIES, BODY_LOG_FILE, BODY_LOG_PER_PATH")
    def test_body_logging_is_off_by_default(self) -> None:
        game = self.game(LOG_BODIES="0")
        game.browse("POST", "/party", token=game.player("Ann_1").token, json={})
        self.assertFalse(self.file.exists())

    @proves("convention 6: LOG_BODIES, BODY_LOG_FILE, BODY_LOG_PER_PATH")
    def test_both_bodies_of_a_marked_row_are_logged(self) -> None:
        game = self.game()
        ann = game.player("Ann_1")
        page = game.browse("POST", "/party", token=ann.token, json={"hello": 1})
        [record] = self.records()
        self.assertEqual(record["request"], '{"hello":1}')
        self.assertEqual(json.loads(record["reply"]), page.json)
        self.assertEqual(
            (record["method"], record["path"], record["status"], record["account"]),
            ("POST", "/party", 200, ann.id),
        )
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)

    def test_a_request_of_an_unmarked_row_is_not_logged(self) -> None:
        game = self.game()
        token = game.player("Ann_1").token
        game.browse("POST", "/heartbeat", token=token, json={"map": "x"})
        game.browse("GET", "/nowhere")
        self.assertEqual(self.records(), [])

    @proves("convention 6: LOG_BODIES, BODY_LOG_FILE, BODY_LOG_PER_PATH")
    def test_exactly_the_social_store_and_lookup_rows_are_marked(self) -> None:
        # party, friends, guild, store, Escalation, slayer link and the two account look-ups:
        # every row of theirs, and no other
        starts = (
            "/party",
            "/friends/",
            "/guild",
            "/product/",
            "/token/",
            "/notification/",
            "/escalation/",
            "/slayerlink/",
            "/account/mapping",
            "/accountinfo/public",
        )
        for environ in ({"STORE": "free", "ESCALATION_MODE": "real"}, {"GUILDS": "0"}, {}):
            rows = self.game(**environ).door.rows
            marked = {row.name for row in rows if row.body_log}
            wanted = {row.name for row in rows if row.path.startswith(starts)}
            self.assertEqual(marked, wanted)
            for start in starts[:3] + starts[6:]:
                self.assertTrue([row for row in rows if row.path.startswith(start)], start)

    @proves("convention 6: LOG_BODIES, BODY_LOG_FILE, BODY_LOG_PER_PATH")
    def test_each_path_is_logged_up_to_its_limit(self) -> None:
        game = self.game(BODY_LOG_PER_PATH="2")
        token = game.player("Ann_1").token
        for _ in range(3):
            game.browse("POST", "/party", token=token, json={})
            game.browse("POST", "/account/mapping", token=token, json={})
        self.assertEqual(len(self.records()), 4)

    @proves("convention 6: LOG_BODIES, BODY_LOG_FILE, BODY_LOG_PER_PATH")
    def test_a_limit_of_zero_logs_every_request(self) -> None:
        game = self.game(BODY_LOG_PER_PATH="0")
        token = game.player("Ann_1").token
        for _ in range(25):
            game.browse("POST", "/party", token=token, json={})
        self.assertEqual(len(self.records()), 25)

    @proves("convention 6: LOG_BODIES, BODY_LOG_FILE, BODY_LOG_PER_PATH")
    def test_an_unwritable_file_is_one_warning_and_no_failure(self) -> None:
        events: list[Any] = []
        globalLogPublisher.addObserver(events.append)
        self.addCleanup(globalLogPublisher.removeObserver, events.append)
        game = self.game(BODY_LOG_FILE=str(self.file / "below" / "nothing"))
        token = game.player("Ann_1").token
        for _ in range(2):
            self.assertEqual(game.browse("POST", "/party", token=token, json={}).status, 200)
        warned = [event for event in events if "BODY_LOG_FILE" in event.get("log_format", "")]
        self.assertEqual([event["log_level"] for event in warned], [LogLevel.warn])

    @proves("convention 6: LOG_BODIES, BODY_LOG_FILE, BODY_LOG_PER_PATH")
    def test_a_full_body_log_is_replaced_by_a_new_file(self) -> None:
        self.patch(bodylog, "MOST", 1_000)
        game = self.game(BODY_LOG_PER_PATH="0")
        token = game.player("Ann_1").token
        for _ in range(30):
            game.browse("POST", "/party", token=token, json={})
        for file in (self.file, self.file.with_name("bodies.log.1")):
            if file.exists():
                self.assertLess(file.stat().st_size, 2_000)
        self.assertTrue(self.file.with_name("bodies.log.1").exists())

    def test_a_rotated_log_is_started_afresh(self) -> None:
        game = self.game()
        token = game.player("Ann_1").token
        game.browse("POST", "/party", token=token, json={})
        self.file.rename(self.file.with_name("bodies.log.1"))
        game.browse("POST", "/party", token=token, json={})
        self.assertEqual(len(self.records()), 1)

    @proves("convention 6: LOG_BODIES, BODY_LOG_FILE, BODY_LOG_PER_PATH")
    def test_tokens_and_keys_are_removed(self) -> None:
        game = self.game()
        token = game.player("Ann_1").token
        sent = {"a": KEY, "b": TOKEN, "accessToken": "short", "kept": "word"}
        game.browse("POST", "/party", token=token, json=sent)
        [record] = self.records()
        self.assertEqual(
            json.loads(record["request"]),
            {"a": "<key>", "b": "<token>", "accessToken": "<redacted>", "kept": "word"},
        )
        self.assertNotIn(token, self.file.read_text())


class ShownTests(SynchronousTestCase):
    @proves("convention 6: LOG_BODIES, BODY_LOG_FILE, BODY_LOG_PER_PATH")
    def test_an_escape_hides_no_secret(self) -> None:
        self.assertNotIn("short", shown(b'{"t\\u006fken": "short"}'))
        self.assertNotIn("UUK_abab", shown(b'{"x":"\\u0055UK_' + b"ab" * 24 + b'"}'))

    def test_a_long_body_is_cut_even_within_a_secret(self) -> None:
        body = b'{"token":"' + b"s" * MAX_BODY * 2 + b'"}'
        self.assertEqual(shown(body), '{"token":"<redacted>"')

    def test_a_hostile_body_is_searched_quickly(self) -> None:
        for body in (b'"' + b"token" * 13_000, b'"token":' * 8_000, b'"\\' * 32_000):
            self.assertLessEqual(len(shown(body)), MAX_BODY)

    @given(st.binary(max_size=300))
    @effort(max_examples=50, deadline=None)
    def test_a_body_of_any_bytes_is_shown_as_text(self, body: bytes) -> None:
        self.assertIsInstance(shown(body), str)
