"""Downloads of game files: four concurrently, resumable, verified, within a speed limit.

Memory use is constant: a connection is paused while a thread writes the received chunk.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from attrs import define, field
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater

from svcserver.kernel.digits import whole_in
from svcserver.kernel.secrets import Secret
from svcserver.launcher import words
from svcserver.launcher.game_folder import (
    PIECE,
    SPARE,
    Damaged,
    GameFolder,
    NoRoom,
    PartialFile,
    Progress,
    Stopped,
)
from svcserver.launcher.host_client import HostClient, HostRequest, NoReply
from svcserver.launcher.listing import GameFile
from svcserver.launcher.locked_files import plain_path

AT_ONCE = 4
FIRST_WAIT_S, LONGEST_WAIT_S = 2.0, 60.0
MOST_DAMAGED = 2  # damaged attempts per file before the download fails
RATE_WINDOW_S = 5.0
SMALLEST_PIECE = 16 * 1024  # bytes


class DownloadFailed(Exception):
    """The error when a download cannot continue; its text is for the player."""


class KeyRefused(DownloadFailed):
    """The error when the host does not know the key."""


class ListingChanged(Exception):
    """The error when the host's files have changed, so that the list must be fetched again."""


@define
class DownloadRate:
    """The download speed of the last few seconds, and the pauses that a speed limit needs."""

    limit: int = 0  # bytes per second for all files together; 0: none
    _recent: deque[tuple[float, int]] = field(factory=deque, init=False)
    _free_at: float = field(default=0.0, init=False)

    def count(self, size: int, now: float) -> float:
        """Count ``size`` received bytes; return how many seconds to wait before reading more."""
        self._recent.append((now, size))
        self._forget(now)
        if not self.limit:
            return 0.0
        self._free_at = max(self._free_at, now - 0.25) + size / self.limit
        return max(0.0, self._free_at - now)

    @property
    def piece(self) -> int:
        """The number of bytes to collect before they are written; smaller under a speed limit."""
        return min(PIECE, max(SMALLEST_PIECE, self.limit // 8)) if self.limit else PIECE

    def per_second(self, now: float) -> float:
        """Return the average number of bytes per second over the last few seconds."""
        self._forget(now)
        if not self._recent:
            return 0.0
        return sum(size for _, size in self._recent) / max(0.5, now - self._recent[0][0])

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0][0] < now - RATE_WINDOW_S:
            self._recent.popleft()


@define(eq=False, slots=False)
class _FileDownload:
    """The receiver of one file: collects a chunk, writes it in a thread, and then reads on."""

    fetch: Download
    growing: PartialFile
    status: int = 0
    headers: Mapping[str, str] = field(factory=dict)
    failure: Exception | None = None
    _request: HostRequest | None = None
    _waiting: list[bytes] = field(factory=list)
    _size: int = 0
    _taken: int = 0  # bytes of this reply
    _expected: int = 0
    _writing: Deferred[Any] | None = None
    _pause: Any = None  # the timer of a speed limit's pause
    _over: bool = False

    def __attrs_post_init__(self) -> None:
        self._expected = self.growing.file.size - self.growing.size

    def begin(self, answer: HostRequest, status: int, headers: Mapping[str, str]) -> None:
        self._request, self.status, self.headers = answer, status, headers
        if status in (200, 206):
            self.fetch.comes(self.growing.file)

    @property
    def fits(self) -> bool:
        """True if the reply has the expected file version and starts where the saved bytes end."""
        start = self.growing.file.size - self._expected
        if self.headers.get("etag", "") not in ("", f'"{self.growing.file.sha256}"'):
            return False
        if self.status == 206:
            return self.headers.get("content-range", "").startswith(f"bytes {start}-")
        return start == 0

    def piece(self, data: bytes) -> None:
        if self.status not in (200, 206) or not self.fits:
            return
        self._taken += len(data)
        if self._taken > self._expected:
            self.failure = Damaged(
                self.growing.file.path
            )  # more bytes than the file has: never write them
            if self._request is not None:
                self._request.give_up(NoReply("answer"))
            return
        self._waiting.append(data)
        self._size += len(data)
        if self._size >= self.fetch.rate.piece and self._request is not None:
            self._request.hold()
            if self._writing is None:
                self._write()

    def _write(self) -> None:
        data, self._waiting, self._size = b"".join(self._waiting), [], 0
        self._writing = self.fetch.in_thread(self.growing.write, data)
        self._writing.addCallbacks(self._written, self._not_written, callbackArgs=(len(data),))

    def _written(self, _: object, size: int) -> None:
        self._writing = None
        self.fetch.progress.bytes_done += size
        pause = self.fetch.rate.count(size, self.fetch.clock.seconds())
        if self._size >= self.fetch.rate.piece:
            self._write()
        elif self._request is not None and not self._over:
            self._stop_pause()
            if pause > 0:
                self._pause = self.fetch.clock.callLater(pause, self._request.release)
            else:
                self._request.release()

    def _not_written(self, failure: Any) -> None:
        self._writing, self.failure = None, failure.value
        self._waiting, self._size = [], 0
        if self._request is not None:
            self._request.give_up(NoReply("disk"))

    def _stop_pause(self) -> None:
        pause, self._pause = self._pause, None
        if pause is not None and pause.active():
            pause.cancel()

    async def flush(self) -> None:
        """Write the bytes that are still in memory; raise the error if writing fails."""
        self._over = True
        self._stop_pause()
        while (writing := self._writing) is not None or (self._waiting and self.failure is None):
            if writing is None:
                self._write()
            else:  # then check again: writing may have begun for the next chunk
                await writing
        if self.failure is not None:
            raise self.failure


@define(eq=False, slots=False)
class Download:
    """The download of all missing files."""

    clock: Any
    client: HostClient
    key: Secret = field(repr=False)
    folder: GameFolder
    in_thread: Callable[..., Deferred[Any]]
    rate: DownloadRate
    progress: Progress = field(factory=Progress)
    _left: deque[GameFile] = field(factory=deque, init=False)
    _open: set[HostRequest] = field(factory=set, init=False)
    _sleeping: set[Deferred[None]] = field(factory=set, init=False)
    _notes: dict[str, str] = field(factory=dict, init=False)  # file path -> why the file waits

    @property
    def note(self) -> str:
        """Why a file is delayed, as a text for the player; empty if no file is delayed."""
        return next(reversed(self._notes.values()), "")

    def comes(self, file: GameFile) -> None:
        """Clear the text about a file's delay, because the host is now sending the file."""
        self._notes.pop(file.path, None)

    async def run(self, files: tuple[GameFile, ...]) -> None:
        """Download ``files`` and move them into place.

        Raises ListingChanged, Stopped, or DownloadFailed with a text for the player.
        """
        try:
            left = await self.in_thread(self.folder.prepare, files)
            self.progress.bytes_total = sum(file.size for file in left)
            self.progress.files_total = len(left)
            self._left = deque(sorted(left, key=lambda file: -file.size))
            works = [Deferred.fromCoroutine(self._work()) for _ in range(AT_ONCE)]
            try:
                await gatherResults(works, consumeErrors=True)
            except Exception as error:
                self.stop()
                for work in works:
                    work.addErrback(lambda _: None)  # only the first failure is reported
                raise getattr(error, "subFailure").value from None  # noqa: B009 - FirstError
            await self.in_thread(self.folder.put_in_place, files, self.progress)
        except NoRoom as error:
            raise DownloadFailed(self._no_room_text(error.needed)) from error
        except OSError as error:
            raise DownloadFailed(self._disk_error(error)) from error

    def stop(self) -> None:
        """Stop the download, but keep the bytes received so far."""
        self.progress.stop = True
        self._left.clear()
        for request in tuple(self._open):
            request.give_up(Stopped())
        for sleep in tuple(self._sleeping):
            sleep.cancel()

    async def _work(self) -> None:
        while self._left:
            await self._download_file(self._left.popleft())

    async def _download_file(self, file: GameFile) -> None:
        """Download one file, with retries."""
        growing = PartialFile(self.folder, file)
        wait_s, damaged = FIRST_WAIT_S, 0
        while True:
            before = growing.size
            await self.in_thread(growing.resume, self.progress)
            try:
                pause = await self._try(growing)
                if pause == 0:
                    await self.in_thread(growing.finish)
                    self.progress.files_done += 1
                    return
            except Damaged as error:
                damaged += 1
                self.progress.bytes_done -= file.size
                if damaged >= MOST_DAMAGED:
                    raise DownloadFailed(words.BAD_DOWNLOAD.format(path=file.path)) from error
                continue
            except NoReply as error:
                if error.code == "certificate_mismatch":
                    raise DownloadFailed(words.WRONG_CERTIFICATE) from error
                wait_s = FIRST_WAIT_S if growing.size > before else min(wait_s * 2, LONGEST_WAIT_S)
                pause = wait_s
                self._notes[file.path] = words.LINE_CUT.format(seconds=words.duration(pause))
            self.progress.bytes_done -= growing.size
            await self._sleep(pause)

    async def _sleep(self, seconds: float) -> None:
        sleep: Deferred[None] = deferLater(self.clock, seconds)
        self._sleeping.add(sleep)
        try:
            await sleep
        except BaseException as error:
            if self.progress.stop:
                raise Stopped from error
            raise
        finally:
            self._sleeping.discard(sleep)

    async def _try(self, growing: PartialFile) -> float:
        """Send a request; return the seconds until the next request, or 0 for a complete file."""
        file = growing.file
        if self.progress.stop:
            raise Stopped
        if growing.size == file.size:
            return 0
        arriving = _FileDownload(self, growing)
        headers = {"If-Range": f'"{file.sha256}"', "Range": f"bytes={growing.size}-"}
        path = "/content/v1/files/" + quote(file.path, safe="/")
        request = self.client.open(
            "GET", path, arriving, key=self.key, headers=headers if growing.size else None
        )
        self._open.add(request)
        try:
            await request.done
        finally:
            self._open.discard(request)
            await arriving.flush()
        return self._next_wait(arriving, file)

    def _next_wait(self, arriving: _FileDownload, file: GameFile) -> float:
        """Return the seconds until the next request, or 0 if the reply was complete.

        Raises an error if the download cannot continue.
        """
        status, retry = arriving.status, arriving.headers.get("retry-after", "")
        wanted_s = whole_in(retry, 4)
        wait_s = FIRST_WAIT_S if wanted_s is None else float(wanted_s)
        if status in (200, 206):
            if not arriving.fits:
                raise ListingChanged
            return 0
        if status in (401, 403):
            raise KeyRefused(words.KEY_REFUSED)
        if status in (404, 416):
            raise ListingChanged
        if status == 503 and not retry:
            raise DownloadFailed(words.FILE_UNAVAILABLE.format(path=file.path))
        if status in (429, 502, 503, 504):
            self._notes[file.path] = words.RESTARTING if status in (502, 504) else words.FULL
            return max(1.0, wait_s)
        raise DownloadFailed(words.NOT_OUR_HOST)

    def _no_room_text(self, needed: int) -> str:
        return words.DISK_FULL.format(
            needed=words.amount(needed), folder=self.folder.root, reserve=words.amount(SPARE)
        )

    def _disk_error(self, error: OSError) -> str:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            left = max(0, self.progress.bytes_total - self.progress.bytes_done)
            return self._no_room_text(left + SPARE)
        if error.errno == errno.ENOTEMPTY:
            return words.IN_THE_WAY.format(folder=plain_path(str(error.filename)))
        return words.NOT_WRITABLE.format(folder=self.folder.root, why=error.strerror or error)
