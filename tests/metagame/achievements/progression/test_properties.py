"""Grants never exceed the cap, retries never count twice, and ranks match those of the client."""

import tempfile
from pathlib import Path
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.achievements.progression import config, rules
from svcserver.metagame.achievements.progression.rules import Track
from svcserver.metagame.achievements.progression.wire import GrantBody
from tests.metagame.achievements.progression.base import Achieving
from tests.support.effort import tried
from tests.support.proves import proves

CAP = 5000
read_grant = reader(GrantBody)
TRACK_IDS = st.sampled_from(["season09b", "MasteryTrack_PlayerLevel", "Other"])
AMOUNTS = st.one_of(
    st.integers(-(2**40), 2**40), st.booleans(), st.none(), st.floats(), st.text(max_size=4)
)
ENTRIES = st.lists(
    st.fixed_dictionaries({"progression_id": TRACK_IDS, "progress": AMOUNTS}), max_size=6
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["progress_tracks", "objectives", "progression_id", "progress", "value"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


class GrantProperties(SynchronousTestCase):
    @proves("POST /progression/:userId", "limit: Progression grant cap per request per track")
    @tried(50)
    @given(st.lists(ENTRIES, min_size=1, max_size=6))
    def test_no_request_adds_more_than_the_cap_and_nothing_ever_falls(self, sent: Any) -> None:
        tracks: dict[str, Track] = {}
        for entries in sent:
            amounts = read_grant({"progress_tracks": entries}).grant().tracks
            for track in rules.grown_tracks(tracks, amounts, CAP, []):
                before = tracks[track.id].progress if track.id in tracks else 0
                self.assertTrue(before <= track.progress <= min(before + CAP, rules.INT_MAX))
                tracks[track.id] = track

    @tried(100)
    @given(JSON)
    def test_any_json_is_a_grant_or_malformed(self, body: Any) -> None:
        try:
            grant = read_grant(body).grant()
        except Malformed:
            return
        self.assertTrue(all(amount >= 0 for amount in grant.tracks.values()))


class RetryProperties(Achieving):
    @proves("POST /progression/:userId")
    @tried(20)
    @given(st.lists(st.tuples(st.integers(0, 900), st.integers(1, 4)), min_size=1, max_size=5))
    def test_a_retried_grant_counts_once(self, grants: list[tuple[int, int]]) -> None:
        path, before, total = f"/progression/{self.ann.id}", self.total(), 0
        for number, (amount, times) in enumerate(grants):
            entry = {"progression_id": "season09b", "progress": amount}
            body = {"progress_tracks": [entry], "objectives": [], "nonce": number}
            replies = {self.server("POST", path, json=body).body for _ in range(times)}
            self.assertEqual(len(replies), 1)
            total += amount
        self.assertEqual(self.total() - before, total)
        self.game.clock.advance(6)

    def total(self) -> int:
        page = self.server("GET", f"/progression/{self.ann.id}").json
        return int(page["payload"][0]["progress"])


class RankTests(SynchronousTestCase):
    @proves("thing: Progression track")
    def test_ranks_match_the_examples_of_the_client(self) -> None:
        paths = config.load(None, "season09b").paths
        season, level = paths["season09b"], paths["MasteryTrack_PlayerLevel"]
        examples = ((99, 0), (100, 1), (250, 2), (5000, 50), (5099, 50), (5100, 51), (5250, 52))
        for progress, rank in examples:
            self.assertEqual(season.rank(progress), rank)
        for progress, rank in ((0, 1), (1110, 49), (1111, 50)):
            self.assertEqual(level.rank(progress), rank)
        totals = {name: path.total_xp for name, path in paths.items()}
        self.assertEqual(sorted(set(totals.values())), [115, 411, 1111, 5000])


class FolderTests(SynchronousTestCase):
    GOOD = {"progression_id": "new", "requirements": [{"rank_id": 1, "xp_required": 5}]}  # noqa: RUF012

    def folder(self, *contents: Any) -> str:
        name = self.enterContext(tempfile.TemporaryDirectory())
        for number, content in enumerate(contents):
            text = content if isinstance(content, bytes) else orjson.dumps(content)
            (Path(name) / f"{number}.json").write_bytes(text)
        return name

    @proves("GET /progression/config")
    def test_paths_lists_and_configurations_replace_built_in_tracks(self) -> None:
        season = {**self.GOOD, "progression_id": "season09b"}
        replacement = {**self.GOOD, "progression_id": "other"}
        folder = self.folder(season, [self.GOOD], {"payload": {"paths": [replacement]}})
        paths = config.load(folder, "new").paths
        self.assertEqual((len(paths), next(iter(paths))), (12, "season09b"))
        self.assertEqual(paths["season09b"].max_rank, 1)

    @proves("GET /progression/config")
    def test_broken_files_are_refused_by_name(self) -> None:
        good, steps = self.GOOD, [{"rank_id": 1, "xp_required": 5}]
        for bad in (
            b"{",
            5,
            {},
            {"paths": 5},
            {**good, "requirements": []},
            {**good, "requirements": [*steps, *steps]},
            {**good, "requirements": [{"rank_id": 1, "xp_required": -1}]},
            {**good, "free_rewards": {}},
            {**good, "free_rewards": [{"rank_id": 9}]},
            {**good, "premium_gating_entitlement": 5},
            {**good, "prestige": {"xp_per_level": 0}},
            [good, good],
        ):
            with self.assertRaises(config.BadData) as caught:
                config.load(self.folder(bad), "season09b")
            self.assertIn("0.json", str(caught.exception))

    @proves("GET /progression/config")
    def test_an_empty_folder_and_an_unknown_hunt_pass_are_refused(self) -> None:
        for folder in (self.folder(), "/nonexistent/folder"):
            with self.assertRaises(config.BadData):
                config.load(folder, "season09b")
        with self.assertRaises(config.BadData):
            config.load(None, "nope")
