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

    def test_free_space_is_read_at_most_once_a_second(self) -> None:
        for at in (0.0, 0.5, 0.9, 1.0, 1.5):
            self.now = at
            self.reserve.check()
        self.assertEqual(self.looks, 2)

    def test_look_again_notices_freed_space_at_once(self) -> None:
        self.left = 0
        self.assertRaises(LowDiskSpace, self.reserve.check)
        self.left = 100
        self.assertRaises(LowDiskSpace, self.reserve.check)
        self.reserve.look_again()
        self.reserve.check()

    def test_with_unreadable_free_space_writes_are_accepted(self) -> None:
        self.left = -1
        self.reserve.check()

    def test_a_reserve_of_0_never_reads_the_free_space(self) -> None:
        Reserve(Path("/folder"), 0, lambda: self.now, self.free).check()
        self.assertEqual(self.looks, 0)

    def test_low_disk_space_counts_as_full_and_names_its_setting(self) -> None:
        self.assertIn("DISK_RESERVE_MB", str(cure_of(LowDiskSpace("x"))))
        self.assertTrue(is_full(LowDiskSpace("x")))
        self.assertFalse(is_full(ValueError("x")))

    def test_the_free_space_of_the_real_disk_is_read(self) -> None:
        self.assertGreater(free_bytes(Path.cwd()), 0)
