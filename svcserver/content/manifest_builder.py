"""Builds and verifies manifests, for ``svcctl content manifest`` and ``verify``.

Hashing runs in threads (hashlib and file reads release the GIL). An interrupted build can be
resumed: ``<output>.partial`` has the finished hashes. A hash is used again only if the file's size
and time are unchanged. Example:

    build_manifest(Path("game"), "1.4.4", Path("manifest.json"), progress=bar.update)
    report = verify_manifest(Path("game"), manifest, progress=bar.update)
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path
from sys import getsizeof
from threading import Event, Lock

from attrs import define, field, frozen

from svcserver.content import manifest as manifests
from svcserver.content.manifest import BadManifest, Manifest, ManifestEntry
from svcserver.content.paths import is_clean
from svcserver.kernel import json
from svcserver.kernel.game_paths import LARGEST_PATHS, MOST_FILES, is_safe, same_place

CHUNK = 1 << 20  # bytes read at a time
SAVE_EVERY = 256 * 1024 * 1024  # bytes hashed between two saves of the partial file
OWNERS_NOTE = "README.txt"  # the note that svcctl init writes into empty folders
_NOTES = (  # first words of the notes of this version and of 0.1.0
    b"This host has no game files yet.",
    b"Put the game's files here, then run: svcctl content manifest",
)
MOVE_OUT = "move it out of the game folder or rename it"


@frozen
class HashingProgress:
    """The progress of the hashing; the callback runs in any thread, one call at a time."""

    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int
    path: str  # the file with the latest progress


Report = Callable[[HashingProgress], None]


class BuildFailed(Exception):
    """The error when no manifest can be built; ``str()`` is one line with the remedy."""


@frozen
class Verified:
    """The result of ``verify_manifest``; each field contains sorted paths."""

    ok: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    size: tuple[str, ...] = ()  # the size differs from the manifest
    hash: tuple[str, ...] = ()  # the size is right, but the hash differs

    @property
    def good(self) -> bool:
        """True if every file matches the manifest."""
        return not (self.missing or self.size or self.hash)


@frozen
class FoundFile:
    """One file of the game folder, before the file is hashed."""

    path: str
    size: int
    mtime_ns: int


def load_manifest(path: Path) -> Manifest:
    """Return the manifest in a file; raises BadManifest, also if the file cannot be read."""
    try:
        if path.stat().st_size > manifests.MAX_BYTES:
            raise BadManifest(f"is larger than {manifests.MAX_BYTES} bytes")
        text = path.read_bytes()
    except OSError as why:
        raise BadManifest(f"cannot be read: {why.strerror or why}") from None
    return manifests.parse(text)


def build_manifest(
    folder: Path,
    build: str,
    output: Path,
    *,
    progress: Report | None = None,
    workers: int | None = None,
    stop: Event | None = None,
) -> Manifest:
    """Hash every file below ``folder`` and write the manifest to ``output``.

    Ignores symbolic links, names with a leading dot, ``output`` and its partial file. Also ignores
    the note that ``svcctl init`` wrote, unless the note is the only file.

    Raises BuildFailed if there are no files, if a file is unsuitable, or if the event ``stop`` is
    set. The next call reuses the finished hashes. ``workers`` defaults to the number of cores.
    """
    own = {output.absolute(), _partial(output).absolute()}
    files = [file for file in walk(folder) if (folder / file.path).absolute() not in own]
    files = [file for file in files if not _is_note(folder, file)] or files
    if not files:
        raise BuildFailed(f"{folder} has no files; name the game's folder")
    if len(files) > MOST_FILES:
        raise BuildFailed(f"{folder} has more than {MOST_FILES:,} files; name the game's folder")
    if sum(getsizeof(file.path) for file in files) > LARGEST_PATHS:
        raise BuildFailed(f"the names below {folder} are too long; shorten them")
    if path := same_place(file.path for file in files):
        raise BuildFailed(
            f"two files would have the same name on Windows, {path!r}; rename one of them"
        )
    finished = _load_partial(_partial(output), build)
    done = {file.path: finished[file] for file in files if file in finished}
    work = _Work(folder, files, done, progress, stop or Event())

    def save() -> None:
        _save_partial(_partial(output), build, work)

    work.run(workers, save)
    entries = [ManifestEntry(file.path, file.size, work.hashes[file.path]) for file in files]
    try:
        made = manifests.make(build, entries)
    except BadManifest as why:
        raise BuildFailed(f"the manifest {why}") from None
    text = made.dump()
    if len(text) > manifests.MAX_BYTES:
        raise BuildFailed(f"the manifest is larger than {manifests.MAX_BYTES} bytes")
    _replace(output, text)
    _partial(output).unlink(missing_ok=True)
    return made


def verify_manifest(
    folder: Path,
    manifest: Manifest,
    *,
    progress: Report | None = None,
    workers: int | None = None,
    stop: Event | None = None,
) -> Verified:
    """Hash every file of ``manifest`` below ``folder``, and compare with the manifest."""
    missing, size, files = [], [], []
    for entry in manifest.files.values():
        try:
            status = os.lstat(folder / entry.path)
        except OSError:
            missing.append(entry.path)
            continue
        if not stat.S_ISREG(status.st_mode):
            missing.append(entry.path)
        elif status.st_size != entry.size:
            size.append(entry.path)
        else:
            files.append(FoundFile(entry.path, status.st_size, status.st_mtime_ns))
    work = _Work(folder, files, {}, progress, stop or Event())
    work.run(workers, lambda: None)
    right = {
        file.path for file in files if work.hashes[file.path] == manifest.files[file.path].sha256
    }
    ok = tuple(file.path for file in files if file.path in right)
    wrong = tuple(file.path for file in files if file.path not in right)
    return Verified(ok, tuple(missing), tuple(size), wrong)


def walk(folder: Path) -> Iterator[FoundFile]:
    """Yield every regular file below ``folder``, in the byte order of the paths.

    Raises BuildFailed for a name that a manifest must not contain, and for a folder that cannot be
    read.
    """
    try:
        yield from sorted(_walk(folder, ""), key=lambda file: file.path.encode())
    except OSError as why:
        raise BuildFailed(f"{why.filename or folder} cannot be read: {why.strerror}") from None


def _is_note(folder: Path, candidate: FoundFile) -> bool:
    """Return whether a file is the note that ``svcctl init`` wrote, not a game file."""
    if candidate.path != OWNERS_NOTE:
        return False
    try:
        with (folder / candidate.path).open("rb") as file:
            return file.read(max(map(len, _NOTES))).startswith(_NOTES)
    except OSError as why:
        raise BuildFailed(f"{candidate.path} cannot be read: {why.strerror}") from None


def _walk(folder: Path, prefix: str) -> Iterator[FoundFile]:
    with os.scandir(folder) as names:
        entries = list(names)
    for entry in entries:
        if entry.name.startswith(".") or entry.is_symlink():
            continue
        path = prefix + entry.name
        if not is_clean(path) or not is_safe(path):
            raise BuildFailed(
                f"{path!r} has a name that Windows or the launcher does not allow; {MOVE_OUT}"
            )
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), path + "/")
        elif entry.is_file(follow_symlinks=False):
            status = entry.stat(follow_symlinks=False)
            yield FoundFile(path, status.st_size, status.st_mtime_ns)


@define
class _Work:
    """The parallel hashing of ``files``; ``hashes`` maps a path to its hex digest."""

    folder: Path
    files: list[FoundFile]
    hashes: dict[str, str]
    report: Report | None
    stop: Event
    _lock: Lock = field(factory=Lock, init=False)
    _bytes: int = field(default=0, init=False)
    _total: int = field(default=0, init=False)

    def run(self, workers: int | None, save: Callable[[], None]) -> None:
        """Hash the remaining files; call ``save`` at intervals and on failure."""
        self._total = sum(file.size for file in self.files)
        self._bytes = sum(file.size for file in self.files if file.path in self.hashes)
        left = iter([file for file in self.files if file.path not in self.hashes])
        count = workers or os.cpu_count() or 1
        saved_at = self._bytes
        with ThreadPoolExecutor(count, thread_name_prefix="hash") as pool:
            running: set[Future[None]] = {
                pool.submit(self._hash, file) for file in islice(left, count)
            }
            try:
                while running:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
                    running |= {pool.submit(self._hash, file) for file in islice(left, len(done))}
                    if self._bytes - saved_at >= SAVE_EVERY:
                        saved_at = self._bytes
                        save()
            except BaseException:
                self.stop.set()
                wait(running)
                save()
                raise

    def _hash(self, source: FoundFile) -> None:
        digest = hashlib.sha256()
        try:
            with open(self.folder / source.path, "rb", buffering=0) as file:
                while chunk := file.read(CHUNK):
                    if self.stop.is_set():
                        raise BuildFailed("stopped; run the command again to continue")
                    digest.update(chunk)
                    self._moved(source.path, len(chunk))
                status = os.fstat(file.fileno())
        except OSError as why:
            raise BuildFailed(f"{source.path} cannot be read: {why.strerror}") from None
        if (status.st_size, status.st_mtime_ns) != (source.size, source.mtime_ns):
            raise BuildFailed(
                f"{source.path} changed while it was read; stop what writes to it and run the "
                "command again"
            )
        with self._lock:
            self.hashes[source.path] = digest.hexdigest()
        self._moved(source.path, 0)

    def _moved(self, path: str, count: int) -> None:
        with self._lock:
            self._bytes += count
            if self.report is not None:
                done, files = len(self.hashes), len(self.files)
                self.report(HashingProgress(done, files, self._bytes, self._total, path))


def _partial(output: Path) -> Path:
    return output.with_name(output.name + ".partial")


def _load_partial(path: Path, build: str) -> dict[FoundFile, str]:
    """Return the finished hashes of an interrupted run, or none if the file is unreadable."""
    try:
        value = json.parse(path.read_bytes())
        if value["build"] != build:
            return {}
        return {FoundFile(p, size, mtime): str(sha) for p, size, mtime, sha in value["done"]}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _save_partial(path: Path, build: str, work: _Work) -> None:
    hashes = dict(work.hashes)
    done = [[f.path, f.size, f.mtime_ns, hashes[f.path]] for f in work.files if f.path in hashes]
    _replace(path, json.dump({"build": build, "done": done}))


def _replace(path: Path, text: bytes) -> None:
    fresh = path.with_name(path.name + ".new")
    try:
        with open(fresh, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as why:
        raise BuildFailed(f"{path} cannot be written: {why.strerror}") from None
