"""The service's clock continues steadily when the system clock is set."""

from threading import Event, Thread

from attrs import define
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.monotonic import MonotonicClock


@define
class Machine:
    wall: float = 1_790_000_000.0
    ticks: float = 5.0

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.ticks += seconds

    def time(self) -> MonotonicClock:
        return MonotonicClock(lambda: self.wall, lambda: self.ticks)


class MonotonicTests(SynchronousTestCase):
    def test_the_clock_gives_the_time_of_day(self) -> None:
        machine = Machine()
        time = machine.time()
        machine.passes(90)
        self.assertAlmostEqual(time.read_epoch(), machine.wall)

    def test_a_jump_is_followed_slowly_in_both_directions(self) -> None:
        for jump in (3600.0, -3600.0):
            machine = Machine()
            time, before = machine.time(), machine.wall
            machine.wall += jump
            self.assertEqual(time.read_epoch(), before)
            machine.passes(100)
            self.assertAlmostEqual(time.read_epoch() - before, 110 if jump > 0 else 90)
            machine.passes(36_000)
            self.assertAlmostEqual(time.read_epoch(), machine.wall)

    def test_threads_take_turns_so_that_none_sees_it_go_back(self) -> None:
        machine, looked, reported = Machine(), Event(), Event()
        overtaken: list[bool] = []

        def ticks() -> float:
            read = machine.ticks
            if not looked.is_set():
                looked.set()
                overtaken.append(reported.wait(0.05))
            return read

        def second() -> None:
            looked.wait(20)
            machine.passes(1)
            time.read_epoch()
            reported.set()

        time = machine.time()
        time.monotonic = ticks
        machine.passes(1)
        changed = Thread(target=second)
        changed.start()
        time.read_epoch()
        changed.join(20)
        self.assertEqual(overtaken, [False])

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.tuples(st.floats(0, 1000), st.floats(-1e6, 1e6)), max_size=20))
    def test_the_clock_never_goes_back(self, changes: list[tuple[float, float]]) -> None:
        machine = Machine()
        time = machine.time()
        last = time.read_epoch()
        for passed, jump in changes:
            machine.passes(passed)
            machine.wall += jump
            now = time.read_epoch()
            self.assertGreaterEqual(now, last)
            self.assertLessEqual(now - last, passed * 1.1 + 1e-6)
            last = now
