"""JSON that a stranger could send.

Spec: 1 §4 conventions 3 and 4.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from tests.support.proves import proves


def nested(levels: int) -> str:
    """Return alternating lists and objects, ``levels`` deep."""
    pairs = [("[", "]"), ('{"a":', "}")]
    opening = "".join(pairs[level % 2][0] for level in range(levels))
    return opening + "1" + "".join(pairs[level % 2][1] for level in reversed(range(levels)))


class DepthTests(SynchronousTestCase):
    def test_parsed_json_can_be_written_inside_a_reply(self) -> None:
        for levels in (1, 2, 199, 200):
            value = json.parse(nested(levels))
            wrapped = {"code": None, "payload": {"list": [[value]]}}
            self.assertIn(nested(levels).encode(), json.dump(wrapped))

    @proves("convention 4: unparseable JSON, HTML pages")
    def test_json_that_nests_deeper_is_refused(self) -> None:
        for levels in (201, 254, 255, 1024, 1025, 100_000):
            self.assertRaises(json.BadJson, json.parse, nested(levels))
            self.assertRaises(json.BadJson, json.parse, f'{{"beside": [], "a": {nested(levels)}}}')

    def test_brackets_in_a_text_do_not_nest(self) -> None:
        for value in ({"data": nested(300)}, {"data": nested(300), "a": [1]}, [nested(300)] * 20):
            self.assertEqual(json.parse(json.dump(value)), value)

    @settings(max_examples=50, deadline=None)
    @given(st.recursive(st.none() | st.integers(0, 9) | st.text(), st.lists, max_leaves=20))
    def test_values_below_the_depth_limit_are_read_back_unchanged(self, value: Any) -> None:
        self.assertEqual(json.parse(json.dump([value])), [value])
