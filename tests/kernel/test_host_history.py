"""A host's history stores a week of figures in a file, and returns averages over long spans."""

from pathlib import Path
from tempfile import TemporaryDirectory

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import host_history
from svcserver.kernel.host_history import HISTORY_FILE, KEPT_S, STEP_S, HostHistory

AT = 1_790_000_100  # the start of five minutes


class HostHistoryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(TemporaryDirectory()))
        self.history = HostHistory()

    def test_a_week_of_averages_is_kept(self) -> None:
        for number in range(KEPT_S // STEP_S + 20):
            self.history.add(AT + number * STEP_S, {"cpu": 10.0}, {"gateway": 1.0})
        self.assertEqual(len(self.history.at), KEPT_S // STEP_S)
        self.assertEqual(len(self.history.services["gateway"]), len(self.history.at))
        host_history.write(self.folder, self.history)
        self.assertLess((self.folder / HISTORY_FILE).stat().st_size, 100_000)
        self.assertEqual(host_history.read(self.folder), self.history)

    def test_a_service_is_listed_only_while_it_has_samples(self) -> None:
        self.history.add(AT, {}, {"gateway": 1.0})
        self.history.add(AT + STEP_S, {}, {"content": 0.5})
        self.assertEqual(self.history.services, {"gateway": [1.0, None], "content": [None, 0.5]})
        self.history.add(AT + KEPT_S, {}, {"content": 1.0})
        self.assertEqual(self.history.services, {"content": [0.5, 1.0]})

    def test_a_clock_that_was_wrong_leaves_nothing(self) -> None:
        self.history.add(AT + 9 * KEPT_S, {"cpu": 1.0}, {"gateway": 1.0})
        self.history.add(AT, {"cpu": 2.0}, {"gateway": 1.0})
        self.assertEqual((self.history.at, self.history.load), ([AT], {"cpu": [2.0]}))

    def test_averages_leave_gaps_where_nothing_was_measured(self) -> None:
        for number, share in ((0, 1.0), (1, 0.5), (6, 0.0)):
            self.history.add(AT + number * STEP_S, {}, {"gateway": share})
        averages = self.history.averages(self.history.services, AT, 2 * STEP_S, 4)
        self.assertEqual(averages, {"gateway": [0.75, None, None, 0.0]})
        later = self.history.averages(self.history.services, AT + STEP_S, STEP_S, 2)
        self.assertEqual(later, {"gateway": [0.5, None]})

    def test_an_unreadable_file_counts_as_none(self) -> None:
        self.assertIsNone(host_history.read(self.folder))
        bad_columns = '{"at":[1],"load":{},"services":{"a":[]}}'
        for text in ("", "[]", '{"at":["x"],"load":{},"services":{}}', '{"at":[]}', bad_columns):
            (self.folder / HISTORY_FILE).write_text(text)
            self.assertIsNone(host_history.read(self.folder), text)
