"""Sliding windows: what a plain list of all events would say, in bounded memory."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.rates import Windows

STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 6)), max_size=40)


class WindowTests(SynchronousTestCase):
    @given(STEPS, st.integers(1, 4))
    @settings(max_examples=80, deadline=None)
    def test_it_is_full_and_free_again_as_all_events_would_say(
        self, steps: list[tuple[str, int]], limit: int
    ) -> None:
        windows, events, now = Windows(limit, 10), list[tuple[str, int]](), 0
        for key, later in steps:
            now += later
            past = [at for one, at in events if one == key and at > now - 10]
            self.assertEqual(windows.full(key, now), len(past) >= limit)
            wait = windows.wait(key, now)
            self.assertEqual(wait, past[-limit] + 10 - now if len(past) >= limit else 0)
            if wait == 0:
                windows.note(key, now)
                events.append((key, now))

    def test_the_longest_unused_is_forgotten(self) -> None:
        windows = Windows(1, 10, max_keys=2)
        for at, key in enumerate("abca"):
            windows.note(key, at)
        self.assertEqual(len(windows), 2)
        self.assertEqual([windows.full(key, 4) for key in "abc"], [True, False, True])

    def test_what_is_over_takes_no_memory(self) -> None:
        windows = Windows(1, 10)
        windows.note("a", 0)
        self.assertFalse(windows.full("a", 10))
        self.assertEqual(len(windows), 0)
