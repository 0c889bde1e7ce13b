"""The differences between two versions of a save."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.owner.dashboard.differences import MAX_CHANGES, MAX_SHOWN, difference
from tests.support.proves import proves

leaves = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4)
documents = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
)


def literal(value: Any) -> bytes:
    """Return JSON text as a JSON string, the form in which a save is stored."""
    return json.dumps(value if isinstance(value, str) else json.dumps(value)).encode()


def changes(before: Any, after: Any) -> list[tuple[str, str | None, str | None]]:
    changed = difference(literal(before), literal(after)).changes
    return [(change.path, change.before, change.after) for change in changed]


class DiffTests(SynchronousTestCase):
    @proves("GET DashboardSaveDiff")
    def test_changed_added_and_removed_leaves_have_their_path(self) -> None:
        before = {"level": 3, "bag": [{"name": "axe"}, 7], "old": True}
        after = {"level": 4, "bag": [{"name": "bow"}, 7, "new"]}
        self.assertEqual(
            changes(before, after),
            [
                ("level", "3", "4"),
                ("bag[0].name", "axe", "bow"),
                ("bag[2]", None, "new"),
                ("old", "true", None),
            ],
        )

    def test_json_inside_strings_is_parsed(self) -> None:
        before, after = {"blob": json.dumps({"hp": 1})}, {"blob": json.dumps({"hp": 2})}
        self.assertEqual(changes(before, after), [("blob.hp", "1", "2")])

    def test_a_text_that_is_not_json_is_compared_whole(self) -> None:
        self.assertEqual(changes("abc", "abd"), [("", "abc", "abd")])
        self.assertEqual(changes("{broken", "{broken"), [])

    def test_a_change_from_1_to_true_is_shown(self) -> None:
        self.assertEqual(changes({"a": 1}, {"a": True}), [("a", "1", "true")])

    def test_long_values_and_long_lists_are_cut(self) -> None:
        diff = difference(literal({"a": "x" * 999}), literal({"a": "y"}))
        self.assertEqual(diff.changes[0].before, "x" * MAX_SHOWN + "…")
        diff = difference(literal([0] * 1000), literal([1] * 1000))
        self.assertEqual((len(diff.changes), diff.more), (MAX_CHANGES, 1000 - MAX_CHANGES))

    def test_deeply_nested_json_is_compared_as_text(self) -> None:
        for depth in (50, 70, 250, 300, 1000, 3000):
            deep, after = "[" * depth + "1" + "]" * depth, "[" * depth + "2" + "]" * depth
            self.assertEqual(len(changes(deep, after)), 1, depth)
            self.assertEqual(changes(deep, deep), [], depth)

    @given(documents, documents)
    @settings(max_examples=50, deadline=None)
    def test_only_different_values_differ(self, before: Any, after: Any) -> None:
        self.assertEqual(changes({"a": before}, {"a": before}), [])
        if json.dumps(before) != json.dumps(after) and not isinstance(before, dict | list):
            self.assertNotEqual(changes({"a": before}, {"a": after}), [])

    @proves("GET DashboardSaveDiff")
    @given(st.binary(max_size=40), st.binary(max_size=40))
    @settings(max_examples=50, deadline=None)
    def test_any_bytes_can_be_compared(self, before: bytes, after: bytes) -> None:
        self.assertEqual(difference(before, before).changes, [])
        difference(before, after)
