"""Old history is checked and forgotten without changing the run."""

from twisted.trial.unittest import SynchronousTestCase

from simulation import run
from simulation.outcomes import Violations
from simulation.run import Moment, Run, Scenario, simulate, thinned
from simulation.talk import ChatHistory
from tests.simulation.test_seeds import ALL

LENGTH_S = 400.0 if ALL else 200.0  # longer for ``make seeds``


class FoldingTests(SynchronousTestCase):
    def test_folding_the_history_changes_no_result_of_a_run(self) -> None:
        for seed in (6, 7):  # two metagames on an engine, and one that dies with its board
            scenario = Scenario(seed, 6, LENGTH_S, faults=True)
            self.patch(run, "FOLD_S", 7200.0)
            plain = simulate(scenario)
            self.patch(run, "FOLD_S", LENGTH_S / 4)
            folded = Run(scenario)
            result = folded.run()
            self.assertEqual((result.hash, result.violations), (plain.hash, []))
            self.assertLess(len(folded.history.chat.sent_times), folded.history.chat.spoken)

    def test_thinning_halves_the_moments_and_merges_events(self) -> None:
        moments = [Moment(float(at), ("city",), (f"fault {at}",)) for at in range(5)]
        result = thinned(moments)
        self.assertEqual([violation.at for violation in result], [0.0, 2.0, 4.0])
        self.assertEqual(result[1].events, ("fault 2", "fault 3"))

    def test_a_missed_line_is_reported_when_it_is_forgotten(self) -> None:
        chat = ChatHistory(Violations())
        for who in ("a", "b"):
            chat.entered("City-1", who, 0.0)
        for at in (100.0, 200.0, 4000.0):
            line = chat.utters("line # of a", at)
            chat.spoke("City-1", "a", line)
            chat.check_received("City-1", "a", line, own=True, now=at + 1)
            if at != 200.0:
                chat.check_received("City-1", "b", line, own=False, now=at + 1)
        chat.forget(3000.0, 5000.0)
        self.assertEqual([violation.rule for violation in chat.wrong.listed], ["all hear a line"])
        self.assertEqual((list(chat.sent_times), chat.spoken), (["line 2 of a"], 3))
        chat.settle(5000.0)
        self.assertEqual(len(chat.wrong.listed), 1)
