"""The free disk space is checked once a second; if the check itself fails, writes go on."""

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.faults import cure_of, is_full
from svcserver.db.space import LowDiskSpace, Reserve, free_bytes


class ReserveTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.now, self.left, self.looks = 0.0, 100, 0
        self.reserve = Reserve(Path("/folder"), 100, lambda: self.now, self.free)

    def free(self, folder: Path) -> int:
        self.looks += 1
        if self.left < 0:
            raise OSError("no such disk")
        return self.left

    def test_less_than_the_reserve_is_refused_until_there_is_room(self) -> None:
        self.reserve.check()
        self.now, self.left = 1.0, 99
        self.assertIn("/folder", str(self.assertRaises(LowDiskSpace, self.reserve.check)))
        self.now, self.left = 2.0, 100
        self.reserve.check()

    def test_it_looks_once_a_second(self) -> None:
        for at in (0.0, 0.5, 0.9, 1.0, 1.5):
            self.now = at
            self.reserve.check()
        self.assertEqual(self.looks, 2)

    def test_who_made_room_can_have_it_looked_at_again(self) -> None:
        self.left = 0
        self.assertRaises(LowDiskSpace, self.reserve.check)
        self.left = 100
        self.assertRaises(LowDiskSpace, self.reserve.check)
        self.reserve.look_again()
        self.reserve.check()

    def test_a_disk_that_cannot_be_asked_refuses_nothing(self) -> None:
        self.left = -1
        self.reserve.check()

    def test_0_never_looks(self) -> None:
        Reserve(Path("/folder"), 0, lambda: self.now, self.free).check()
        self.assertEqual(self.looks, 0)

    def test_it_is_a_fault_of_the_database_with_a_cure(self) -> None:
        self.assertIn("DISK_RESERVE_MB", str(cure_of(LowDiskSpace("x"))))
        self.assertTrue(is_full(LowDiskSpace("x")))
        self.assertFalse(is_full(ValueError("x")))

    def test_the_real_disk_answers(self) -> None:
        self.assertGreater(free_bytes(Path.cwd()), 0)
