"""Random uses of a quota on a board that runs transactions twice, compared with a plain list."""

from collections import defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.quota import Quota
from tests.support.live import TestBoard

LIMIT, WINDOW_S = 2, 10.0
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "take", "wait", "full", "give back", "give back another's"]),
        st.sampled_from(["ann", "bob"]),
        st.sampled_from([0.0, 0.5, 3.0, 9.5, 10.0]),  # seconds since the last step
    ),
    min_size=15,
    max_size=40,
)


def follow(case: SynchronousTestCase, live: Any, steps: list[tuple[str, str, float]]) -> None:
    """Run the steps on the board and on a list of times, and assert equal results."""
    quota, now = Quota.named("two", LIMIT, WINDOW_S), 0.0
    model: defaultdict[str, list[float]] = defaultdict(list)
    for step, who, passed in steps:
        now += passed
        model[who] = taken = [at for at in model[who] if at > now - WINDOW_S]
        free = len(taken) < LIMIT
        if step == "take":
            taken_at = live.do(lambda transaction, who=who: quota.take(transaction, who), now)
            case.assertEqual(taken_at, now if free else None)
            taken += [now] * free
        elif step == "wait":
            waits = live.do(lambda transaction, who=who: quota.take_or_wait(transaction, who), now)
            case.assertEqual(waits, 0.0 if free else taken[0] + WINDOW_S - now)
            taken += [now] * free
        elif step == "full":
            full = live.do(lambda transaction, who=who: quota.is_full(transaction, who), now)
            case.assertEqual(full, not free)
        else:
            at = taken[-1] if taken and step == "give back" else -1.0
            live.do(lambda transaction, who=who, at=at: quota.give_back(transaction, who, at), now)
            if at in taken:
                taken.remove(at)


class QuotaMachineTests(SynchronousTestCase):
    @settings(max_examples=100, deadline=None)
    @given(STEPS)
    def test_a_quota_is_a_list_of_times_within_the_window(
        self, steps: list[tuple[str, str, float]]
    ) -> None:
        follow(self, TestBoard(), steps)
