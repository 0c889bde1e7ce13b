"""The firewall is updated by one process at a time, at a limited rate, until an update succeeds."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.allowlist.applier import Applied, Applier, Ips
from svcserver.allowlist.programs import FirewallError
from tests.support.proves import proves

A, B = ("203.0.113.1",), ("203.0.113.1", "203.0.113.2")


class Wall:
    """A fake firewall whose updates end when the test ends them."""

    def __init__(self, clock: Clock, interval_s: float = 3.0) -> None:
        self.clock = clock
        self.runs: list[tuple[float, Ips]] = []
        self.ends: list[float] = []
        self.open: list[Deferred[None]] = []
        self.on_applied: list[Applied] = []
        self.applier = Applier(clock, self.run, clock.seconds, self.on_applied.append, interval_s)

    def run(self, ips: Ips) -> Deferred[None]:
        assert not self.open, "two runs at once"
        self.runs.append((self.clock.seconds(), ips))
        self.open.append(Deferred())
        return self.open[0]

    def end(self, error: str = "") -> None:
        self.ends.append(self.clock.seconds())
        done = self.open.pop()
        if error:
            done.errback(FirewallError(error))
        else:
            done.callback(None)


class ApplierTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.wall = Wall(self.clock)
        self.want = self.wall.applier.want

    @proves("allowlist: applying")
    def test_the_first_change_after_quiet_is_applied_at_once(self) -> None:
        self.want(A)
        self.assertEqual(self.wall.runs, [(0, A)])
        self.assertTrue(self.wall.applier.pending)
        self.wall.end()
        self.assertFalse(self.wall.applier.pending)

    @proves("allowlist: applying")
    def test_later_changes_are_gathered_until_the_interval_is_over(self) -> None:
        self.want(())
        self.wall.end()
        for ips in (A, B, A, B):
            self.want(ips)
            self.clock.advance(0.5)
        self.assertEqual(len(self.wall.runs), 1)
        self.clock.advance(1)
        self.assertEqual(self.wall.runs[1:], [(3, B)])

    @proves("allowlist: applying")
    def test_a_change_during_a_run_waits_for_its_end(self) -> None:
        self.want(A)
        self.want(B)
        self.clock.advance(10)
        self.assertEqual(len(self.wall.runs), 1)
        self.wall.end()
        self.clock.advance(3)
        self.assertEqual(self.wall.runs[1:], [(13, B)])

    @proves("allowlist: POST /withdraw")
    def test_a_removal_waits_only_for_a_run_in_progress(self) -> None:
        self.want(B)
        self.wall.end()
        self.want((*B, "203.0.113.3"))
        self.want(A, at_once=True)
        self.assertEqual(self.wall.runs[1:], [(0, A)])
        self.want((), at_once=True)  # a change during the running update
        self.clock.advance(0.5)
        self.wall.end()
        self.assertEqual(self.wall.runs[2:], [(0.5, ())])
        self.wall.end()
        self.want(A)  # and then the earlier addresses again
        self.assertEqual(len(self.wall.runs), 3)
        self.clock.advance(3)
        self.assertEqual(self.wall.runs[3:], [(3.5, A)])

    @proves("allowlist: applying")
    def test_the_same_set_is_not_applied_again(self) -> None:
        self.want(A)
        self.wall.end()
        self.clock.advance(100)
        self.want(A)
        self.want(B)
        self.assertEqual(len(self.wall.runs), 2)
        self.wall.end()
        self.want(A)
        self.want(B)
        self.clock.advance(100)
        self.assertEqual(len(self.wall.runs), 2)

    @proves("allowlist: applying")
    def test_a_failure_is_tried_again_later_and_later_up_to_a_minute(self) -> None:
        self.want(A)
        for wait in (3, 6, 12, 24, 48, 60, 60):
            self.wall.end("busy")
            self.assertTrue(self.wall.applier.pending)
            count = len(self.wall.runs)
            self.clock.advance(wait - 0.1)
            self.assertEqual(len(self.wall.runs), count)
            self.clock.advance(0.1)
            self.assertEqual(len(self.wall.runs), count + 1)
        self.assertEqual(self.wall.on_applied[-1].error, "busy")
        self.wall.end()
        self.assertTrue(self.wall.on_applied[-1].ok)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    @proves("allowlist: applying")
    def test_a_defect_in_a_run_is_logged_and_the_run_is_repeated(self) -> None:
        self.want(A)
        self.wall.open.pop().errback(ZeroDivisionError("ours"))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.clock.advance(3)
        self.assertEqual(len(self.wall.runs), 2)

    @proves("allowlist: applying")
    def test_stopping_waits_for_the_run_in_progress_and_begins_no_other(self) -> None:
        self.want(A)
        self.want(B)
        stopped = self.wall.applier.stop()
        self.assertNoResult(stopped)
        self.wall.end()
        self.successResultOf(stopped)
        self.clock.advance(100)
        self.assertEqual(len(self.wall.runs), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    @proves("allowlist: applying")
    def test_stopping_when_idle_is_immediate(self) -> None:
        self.want(A)
        self.wall.end("busy")
        self.successResultOf(self.wall.applier.stop())
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def check(self) -> Deferred[bool]:
        observed: Deferred[bool] = Deferred()
        self.wall.applier.check(lambda ips: observed)
        return observed

    def test_a_removed_rule_is_applied_again(self) -> None:
        self.want(A)
        self.wall.end()
        self.clock.advance(100)
        self.check().callback(True)
        self.assertEqual(len(self.wall.runs), 1)
        self.check().callback(False)
        self.assertEqual(self.wall.runs[1:], [(100, A)])

    def test_a_change_during_a_check_waits_for_its_end(self) -> None:
        self.want(A)
        self.wall.end()
        self.want(B)  # due in three seconds
        self.clock.advance(2)
        self.want(A)
        observed = self.check()
        self.want(B)
        self.clock.advance(5)
        self.assertEqual(len(self.wall.runs), 1)
        self.check().addErrback(lambda why: None).cancel()  # one check at a time
        observed.callback(True)
        self.assertEqual(self.wall.runs[1:], [(7, B)])

    def test_a_check_that_fails_changes_nothing(self) -> None:
        self.want(A)
        self.wall.end()
        self.check().errback(FirewallError("busy"))
        self.clock.advance(100)
        self.assertEqual(len(self.wall.runs), 1)
        self.check().errback(ZeroDivisionError("ours"))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.check().callback(False)
        self.assertEqual(len(self.wall.runs), 2)

    def test_stopping_waits_for_a_check_and_applies_nothing_after_it(self) -> None:
        self.want(A)
        self.wall.end()
        observed = self.check()
        stopped = self.wall.applier.stop()
        self.assertNoResult(stopped)
        observed.callback(False)
        self.successResultOf(stopped)
        self.clock.advance(100)
        self.assertEqual(len(self.wall.runs), 1)

    @proves("allowlist: applying")
    @given(
        st.lists(
            st.one_of(
                st.sampled_from([(), A, B]),
                st.floats(0.1, 5),
                st.sampled_from(["end", "fail"]),
            ),
            max_size=40,
        )
    )
    @settings(max_examples=80, deadline=None)
    def test_runs_never_overlap_and_the_last_request_holds(self, steps: list[object]) -> None:
        clock = Clock()
        wall = Wall(clock)
        wanted: object = None
        for step in steps:
            if isinstance(step, tuple):
                wanted = step
                wall.applier.want(step)
            elif isinstance(step, float):
                clock.advance(step)
            elif wall.open:
                wall.end("busy" if step == "fail" else "")
        for _ in range(4):
            if wall.open:
                wall.end()
            clock.advance(61)
        starts = [at for at, _ in wall.runs]
        for ended, started in zip(wall.ends, starts[1:], strict=False):
            self.assertGreaterEqual(started - ended, 3 - 1e-6)
        if wanted is not None:
            self.assertEqual(wall.runs[-1][1], wanted)
            self.assertFalse(wall.applier.pending)
