"""Game files are compared, downloaded, verified and installed, despite damaged downloads."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.secrets import Secret
from svcserver.launcher import words
from svcserver.launcher.downloads import (
    Download,
    DownloadFailed,
    DownloadRate,
    KeyRefused,
    ListingChanged,
)
from svcserver.launcher.game_folder import (
    SPARE,
    Damaged,
    GameFolder,
    NoRoom,
    PartialFile,
    Progress,
    Stopped,
)
from svcserver.launcher.host_client import NoReply
from svcserver.launcher.listing import GameFile, read_listing
from tests.launcher.around import (
    ClockWithHost,
    FakeHost,
    FakeRequest,
    at_once,
    manifest,
    new_folder,
)

BIG = bytes(range(256)) * 12_000  # three pieces
FILES = {"game.exe": b"MZ" * 600, "data/big.pak": BIG, "data/empty": b"", "data/copy.pak": BIG}


class FolderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = new_folder(self) / "game"
        self.folder = GameFolder(self.root)
        self.files = read_listing(manifest(FILES)).files

    def lay(self, files: dict[str, bytes]) -> None:
        for path, data in files.items():
            place = self.root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)

    def wrong(self, **how: Any) -> list[str]:
        return [file.path for file in self.folder.compare(self.files, Progress(), **how).wrong]

    def test_an_older_copy_of_the_game_is_recognised(self) -> None:
        self.lay({**FILES, "data/big.pak": BIG[:-1] + b"x"})
        self.assertEqual(self.wrong(), ["data/big.pak"])

    def test_a_link_in_place_of_a_file_does_not_count(self) -> None:
        self.lay(FILES)
        (self.root / "game.exe").rename(self.root / "elsewhere")
        (self.root / "game.exe").symlink_to(self.root / "elsewhere")
        self.assertEqual(self.wrong(), ["game.exe"])

    def test_unchanged_files_are_read_again_only_if_thorough(self) -> None:
        self.lay(FILES)
        self.assertEqual(self.wrong(), [])
        path = self.root / "game.exe"
        state = path.stat()
        path.write_bytes(b"XX" * 600)
        # as a failing disk would leave the file
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        fresh = GameFolder(self.root)
        self.assertTrue(fresh.compare(self.files, Progress()).whole)
        self.assertFalse(fresh.compare(self.files, Progress(), thorough=True).whole)
        self.assertFalse(fresh.compare(self.files, Progress()).whole)

    def test_a_check_can_be_stopped(self) -> None:
        self.lay(FILES)
        with self.assertRaises(Stopped):
            self.folder.compare(self.files, Progress(stop=True))

    def test_disk_space_is_checked_before_the_download(self) -> None:
        huge = GameFile("a", 2**60, "0" * 64)
        with self.assertRaises(NoRoom) as caught:
            self.folder.prepare([huge])
        self.assertGreater(caught.exception.needed, 2**59)

    def test_equal_files_need_room_for_each_copy(self) -> None:
        free = shutil.disk_usage(self.root.parent).free
        first, copy = (GameFile(name, free // 3 * 2, "0" * 64) for name in ("a", "b"))
        if free > 4 * SPARE:
            self.assertEqual(self.folder.prepare([first]), [first])
        with self.assertRaises(NoRoom):
            self.folder.prepare([first, copy])

    def test_leftovers_of_another_version_are_deleted(self) -> None:
        self.folder.parts.mkdir(parents=True)
        (self.folder.parts / ("9" * 64 + ".part")).write_bytes(b"old")
        self.folder.prepare(self.files)
        self.assertEqual(list(self.folder.parts.iterdir()), [])

    def test_linked_folder_in_the_game_folder_is_not_followed(self) -> None:
        outside = new_folder(self)
        self.root.mkdir()
        (self.root / "data").symlink_to(outside)
        grown(self.folder, self.files)
        self.folder.put_in_place(self.files, Progress())
        self.assertEqual(list(outside.iterdir()), [])
        self.assertEqual((self.root / "data" / "big.pak").read_bytes(), BIG)

    def test_files_behind_a_link_in_the_game_folder_stay(self) -> None:
        outside = new_folder(self)
        (outside / "b").write_bytes(b"my own")
        self.folder.parts.mkdir(parents=True)
        (self.root / "a").symlink_to(outside)
        file = GameFile("a/b/c.pak", 0, "0" * 64)
        self.folder.whole(file).write_bytes(b"")
        self.folder.put_in_place([file], Progress())
        self.assertEqual((outside / "b").read_bytes(), b"my own")
        self.assertTrue((self.root / "a" / "b" / "c.pak").is_file())

    def test_non_empty_folder_in_place_of_a_file_stays(self) -> None:
        mine = self.root / "data" / "big.pak" / "my own"
        self.lay({"data/big.pak/my own": b"years of work"})
        grown(self.folder, self.files)
        with self.assertRaises(OSError) as refused:
            self.folder.put_in_place(self.files, Progress())
        self.assertEqual(refused.exception.errno, errno.ENOTEMPTY)
        self.assertEqual(mine.read_bytes(), b"years of work")
        mine.unlink()
        grown(self.folder, self.files)
        self.folder.put_in_place(self.files, Progress())
        self.assertEqual(mine.parent.read_bytes(), BIG)

    def test_file_that_is_too_short_on_the_disk_is_damaged(self) -> None:
        file = next(file for file in self.files if file.path == "game.exe")
        self.folder.prepare(self.files)
        growing = PartialFile(self.folder, file)
        growing.write(FILES[file.path])
        self.folder.part(file).write_bytes(FILES[file.path][:-1])
        with self.assertRaises(Damaged):
            growing.finish()
        self.assertEqual(list(self.folder.parts.iterdir()), [])


def grown(folder: GameFolder, files: tuple[GameFile, ...]) -> None:
    """Write all downloads completely."""
    for file in folder.prepare(files):
        growing = PartialFile(folder, file)
        growing.resume(Progress())
        growing.write(FILES[file.path][growing.size :])
        growing.finish()


class DownloadTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.host = FakeHost()
        self.clock = ClockWithHost(self.host)
        self.folder = GameFolder(new_folder(self) / "game")
        self.files = read_listing(manifest(FILES)).files
        self.fetch = self.make()

    def make(self, **changes: Any) -> Download:
        fields: dict[str, Any] = {"in_thread": at_once, "rate": DownloadRate(), **changes}
        return Download(self.clock, self.host, Secret("UUK_1"), self.folder, **fields)  # type: ignore[arg-type]

    def begin(self, fetch: Download | None = None) -> Deferred[None]:
        return Deferred.fromCoroutine((fetch or self.fetch).run(self.files))

    def of(self, name: str) -> FakeRequest:
        return next(
            request for request in reversed(self.host.downloads) if request.path.endswith(name)
        )

    def tag(self, name: str) -> str:
        return next(f'"{file.sha256}"' for file in self.files if file.path.endswith(name))

    def test_files_are_downloaded_once_and_moved_together(self) -> None:
        done = self.begin()
        # equal files are downloaded once, and empty files never
        self.assertEqual(len(self.host.downloads), 2)
        self.of("big.pak" if "big" in self.host.downloads[0].path else "copy.pak").answer(200, BIG)
        self.assertFalse((self.folder.root / "data").exists())
        self.of("game.exe").answer(200, FILES["game.exe"])
        self.successResultOf(done)
        for path, data in FILES.items():
            self.assertEqual((self.folder.root / path).read_bytes(), data)
        self.assertEqual(list(self.folder.parts.iterdir()), [])
        self.assertEqual(self.fetch.progress.bytes_done, self.fetch.progress.bytes_total)

    def test_broken_download_continues_where_it_was(self) -> None:
        self.begin()
        self.of("game.exe").answer(200, FILES["game.exe"])
        big = self.host.downloads[0]
        big.begin(200)
        big.send(BIG[:1_500_000])
        big.done.errback(NoReply())
        self.assertEqual(self.fetch.note, words.LINE_CUT.format(seconds="2 seconds"))
        self.clock.advance(2)
        again = self.host.downloads[-1]
        self.assertEqual(again.headers["Range"], "bytes=1500000-")
        again.begin(206, content_range=f"bytes 1500000-{len(BIG) - 1}/{len(BIG)}")
        again.send(BIG[1_500_000:])
        again.finish()
        self.assertEqual((self.folder.root / "data/big.pak").read_bytes(), BIG)

    def test_only_the_rest_is_downloaded_after_a_kill(self) -> None:
        self.begin()
        self.of("game.exe").answer(200, FILES["game.exe"])
        big = self.host.downloads[0]
        big.begin(200)
        big.send(BIG[: 2 * 1024 * 1024])
        self.host.downloads.clear()
        later = self.make()
        done = self.begin(later)
        [only] = self.host.downloads
        self.assertEqual(only.headers["Range"], "bytes=2097152-")
        only.begin(206, content_range="bytes 2097152-")
        only.send(BIG[2097152:])
        only.finish()
        self.successResultOf(done)

    def test_connection_is_paused_while_its_chunk_is_written(self) -> None:
        writes: list[Deferred[Any]] = []

        def slow(work: Any, *args: Any) -> Deferred[Any]:
            waiting: Deferred[Any] = at_once(work, *args)
            if getattr(work, "__name__", "") == "write":
                waiting.pause()
                writes.append(waiting)
            return waiting

        self.begin(self.make(in_thread=slow))
        big = self.host.downloads[0]
        big.begin(200)
        big.send(BIG[: 1024 * 1024])
        self.assertEqual((big.held, len(writes)), (1, 1))
        writes.pop().unpause()
        self.assertEqual(big.held, 0)

    def test_file_is_verified_after_its_last_chunk_is_written(self) -> None:
        """Under a rate limit chunks are small, so several chunks wait while the disk is busy."""
        writes: list[Callable[[], None]] = []

        def slow(work: Any, *args: Any) -> Deferred[Any]:
            if getattr(work, "__name__", "") != "write":
                return at_once(work, *args)
            waiting: Deferred[Any] = Deferred()
            writes.append(lambda: waiting.callback(work(*args)))
            return waiting

        done = self.begin(self.make(in_thread=slow, rate=DownloadRate(limit=400_000)))
        self.of("game.exe").answer(200, FILES["game.exe"])
        big = self.host.downloads[0]
        big.begin(200)
        big.send(BIG[:60_000])
        big.send(BIG[60_000:])  # the bytes that were left in the socket
        big.finish()
        while writes:
            writes.pop(0)()
        self.successResultOf(done)
        self.assertEqual(len(self.host.downloads), 2)

    def test_rate_returns_the_waits_for_a_limit(self) -> None:
        rate = DownloadRate(limit=100_000)
        waits = [rate.count(50_000, 10.0) for _ in range(4)]
        self.assertEqual([round(wait, 2) for wait in waits], [0.25, 0.75, 1.25, 1.75])
        self.assertEqual(DownloadRate().count(10**9, 1.0), 0.0)

    def test_four_files_are_downloaded_at_once(self) -> None:
        files = {f"f{number}": bytes([number]) for number in range(7)}
        self.files = read_listing(manifest(files)).files
        self.begin()
        under_way = self.host.downloads
        self.assertEqual(len(under_way), 4)
        while any(not request.done.called for request in under_way):
            self.assertLessEqual(sum(not request.done.called for request in under_way), 4)
            pending = next(request for request in under_way if not request.done.called)
            pending.answer(200, files[pending.path[-2:]])
        self.assertEqual(len(under_way), 7)

    def test_limited_connection_pauses_often_and_briefly(self) -> None:
        self.fetch = self.make(rate=DownloadRate(limit=400_000))
        self.begin()
        big = self.host.downloads[0]
        big.begin(200)
        sent = pauses = 0
        begun = self.clock.seconds()
        while sent < 2_000_000:
            big.send(BIG[sent : sent + 50_000])
            sent += 50_000
            rested = 0
            while big.held:
                self.clock.advance(0.05)
                rested += 1
            self.assertLessEqual(rested, 10)
            pauses += rested > 0
        self.assertGreaterEqual(pauses, 20)
        self.assertLess(abs(self.clock.seconds() - begun - 5.0), 0.6)
        self.assertLess(abs(self.fetch.rate.per_second(self.clock.seconds()) - 4e5), 4e4)

    def test_stop_during_a_pause_leaves_no_timer(self) -> None:
        self.fetch = self.make(rate=DownloadRate(limit=10_000))
        done = self.begin()
        self.host.downloads[0].begin(200)
        self.host.downloads[0].send(BIG[:100_000])
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        self.fetch.stop()
        self.failureResultOf(done, Stopped)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_damaged_download_is_repeated_once(self) -> None:
        done = self.begin()
        for _ in range(2):
            self.of("game.exe").answer(200, b"xx" * 600)
        why = self.failureResultOf(done, DownloadFailed)
        self.assertEqual(str(why.value), words.BAD_DOWNLOAD.format(path="game.exe"))
        self.assertFalse((self.folder.root / "game.exe").exists())

    def test_bytes_beyond_the_files_size_are_not_written(self) -> None:
        self.begin()
        request = self.of("game.exe")
        request.begin(200)
        for _ in range(64):
            request.send(b"x" * 65_536)
        sizes = [path.stat().st_size for path in self.folder.parts.iterdir()]
        self.assertLessEqual(sum(sizes), 1200)

    def test_reply_with_another_version_is_not_used(self) -> None:
        done = self.begin()
        self.of("game.exe").answer(200, b"new", etag='"' + "0" * 64 + '"')
        self.failureResultOf(done, ListingChanged)

    def test_refusal_leads_to_a_wait_or_an_error(self) -> None:
        done = self.begin()
        self.of("game.exe").answer(429, retry_after="7")
        self.assertEqual(self.fetch.note, words.FULL)
        before = len(self.host.downloads)
        self.clock.advance(6.9)
        self.assertEqual(len(self.host.downloads), before)
        self.clock.advance(0.2)
        self.of("game.exe").answer(401)
        self.failureResultOf(done, KeyRefused)

    def test_waiting_file_is_shown_while_others_arrive(self) -> None:
        self.begin()
        self.of("game.exe").answer(503, retry_after="10")
        self.of("big.pak" if "big" in self.host.downloads[0].path else "copy.pak").answer(200, BIG)
        done = self.fetch.progress.files_done
        self.assertEqual((done, self.fetch.note), (2, words.FULL))  # one of the two files is empty
        self.clock.advance(10)
        self.of("game.exe").begin(200)
        self.assertEqual(self.fetch.note, "")

    def test_full_disk_is_reported_with_the_missing_space(self) -> None:
        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        self.patch(PartialFile, "write", full)
        done = self.begin()
        self.of("game.exe").answer(200, FILES["game.exe"])
        why = self.failureResultOf(done, DownloadFailed)
        self.assertIn("The disk is full. Free 70.2 MB more for ", str(why.value))

    def test_full_disk_is_reported_with_the_reserve(self) -> None:
        usage = shutil.disk_usage(self.folder.root.parent)
        self.patch(shutil, "disk_usage", lambda _: usage._replace(free=5_000_000))
        why = self.failureResultOf(self.begin(), DownloadFailed)
        self.assertIn(f"Free 68.3 MB more for {self.folder.root}, or ", str(why.value))
        self.assertIn("The launcher always leaves 67.1 MB of the disk free.", str(why.value))

    def test_stop_ends_the_download_and_leaves_no_timer(self) -> None:
        done = self.begin()
        self.of("game.exe").answer(503, retry_after="5")
        self.fetch.stop()
        self.failureResultOf(done, Stopped)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_wrong_certificate_ends_the_download(self) -> None:
        done = self.begin()
        self.of("game.exe").done.errback(NoReply("certificate_mismatch"))
        why = self.failureResultOf(done, DownloadFailed)
        self.assertEqual(str(why.value), words.WRONG_CERTIFICATE)

    def test_unwritable_folder_is_reported(self) -> None:
        Path(self.folder.root).write_bytes(b"a file is where the folder should be")
        why = self.failureResultOf(self.begin(), DownloadFailed)
        self.assertIn("cannot be written to", str(why.value))
