"""Builds and verifies a manifest, for ``svcctl content manifest`` and ``verify``.

Hashing runs in threads (hashlib and reads release the interpreter lock). A build that
was interrupted goes on where it was: finished hashes are kept beside the output in
``<output>.partial``, each valid only while the file's size and time are unchanged.

    build_manifest(Path("game"), "1.4.4", Path("manifest.json"), progress=bar.update)
    report = verify_manifest(Path("game"), manifest, progress=bar.update)
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path
from threading import Event, Lock

from attrs import define, field, frozen

from svcserver.content import manifest as manifests
from svcserver.content.manifest import BadManifest, Entry, Manifest
from svcserver.content.paths import is_clean
from svcserver.kernel import json

CHUNK = 1 << 20  # bytes read at a time
SAVE_EVERY = 256 * 1024 * 1024  # bytes hashed between two saves of the partial file
OWNERS_NOTE = "README.txt"  # what svcctl init puts into folders that others fill
_NOTES = (  # as the notes of this version and of 0.1.0 begin; a README.txt of the game is listed
    b"This host has no game files yet.",
    b"Put the game's files here, then run: svcctl content manifest",
)
DONT_HIDE = "move it out of the game folder or rename it"


@frozen
class Progress:
    """How far the hashing is; the callback gets it from any thread, one call at a time."""

    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int
    path: str  # the file that moved last


Report = Callable[[Progress], None]


class BuildFailed(Exception):
    """The manifest cannot be built; ``str()`` is one line with the cure."""


@frozen
class Verified:
    """The result of ``verify_manifest``; each field holds sorted paths."""

    ok: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    size: tuple[str, ...] = ()  # another size than the manifest says
    hash: tuple[str, ...] = ()  # the right size, other bytes

    @property
    def good(self) -> bool:
        """Whether every file is as the manifest says."""
        return not (self.missing or self.size or self.hash)


@frozen
class Found:
    """One file of the game folder before it is hashed."""

    path: str
    size: int
    mtime_ns: int


def load_manifest(path: Path) -> Manifest:
    """The manifest in a file; raises BadManifest, also when it cannot be read."""
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

    Symbolic links and names with a leading dot are passed over, and so are ``output``
    and its partial file, and the note of ``svcctl init`` once there is anything else: a manifest
    without a file is refused. ``stop`` ends the work early with BuildFailed; what is hashed
    by then is kept for the next run. ``workers`` defaults to the number of cores.
    """
    own = {output.absolute(), _partial(output).absolute()}
    found = [one for one in walk(folder) if (folder / one.path).absolute() not in own]
    found = [one for one in found if not _is_note(folder, one)] or found
    if not found:
        raise BuildFailed(f"{folder} holds no files; name the game's folder")
    kept = _load_partial(_partial(output), build)
    done = {one.path: kept[one] for one in found if one in kept}
    work = _Work(folder, found, done, progress, stop or Event())

    def save() -> None:
        _save_partial(_partial(output), build, work)

    work.run(workers, save)
    entries = [Entry(one.path, one.size, work.hashes[one.path]) for one in found]
    try:
        made = manifests.make(build, entries)
    except BadManifest as why:
        raise BuildFailed(f"the manifest {why}") from None
    _replace(output, made.dump())
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
    """Hash every file of ``manifest`` below ``folder`` and compare."""
    missing, size, found = [], [], []
    for entry in manifest.files.values():
        try:
            seen = os.lstat(folder / entry.path)
        except OSError:
            missing.append(entry.path)
            continue
        if not stat.S_ISREG(seen.st_mode):
            missing.append(entry.path)
        elif seen.st_size != entry.size:
            size.append(entry.path)
        else:
            found.append(Found(entry.path, seen.st_size, seen.st_mtime_ns))
    work = _Work(folder, found, {}, progress, stop or Event())
    work.run(workers, lambda: None)
    right = {one.path for one in found if work.hashes[one.path] == manifest.files[one.path].sha256}
    ok = tuple(one.path for one in found if one.path in right)
    wrong = tuple(one.path for one in found if one.path not in right)
    return Verified(ok, tuple(missing), tuple(size), wrong)


def walk(folder: Path) -> Iterator[Found]:
    """Every regular file below ``folder``, by the byte order of its path.

    Raises BuildFailed for a name that no manifest may hold, and for a folder that
    cannot be read: a manifest that silently lacks files would be worse than none.
    """
    try:
        yield from sorted(_walk(folder, ""), key=lambda one: one.path.encode())
    except OSError as why:
        raise BuildFailed(f"{why.filename or folder} cannot be read: {why.strerror}") from None


def _is_note(folder: Path, one: Found) -> bool:
    """Whether it is the owner's note on where the game belongs, and so none of its files."""
    if one.path != OWNERS_NOTE:
        return False
    try:
        with (folder / one.path).open("rb") as file:
            return file.read(max(map(len, _NOTES))).startswith(_NOTES)
    except OSError as why:
        raise BuildFailed(f"{one.path} cannot be read: {why.strerror}") from None


def _walk(folder: Path, prefix: str) -> Iterator[Found]:
    with os.scandir(folder) as names:
        found = list(names)
    for one in found:
        if one.name.startswith(".") or one.is_symlink():
            continue
        path = prefix + one.name
        if not is_clean(path):
            raise BuildFailed(f"{path!r} has a name the launcher refuses; {DONT_HIDE}")
        if one.is_dir(follow_symlinks=False):
            yield from _walk(Path(one.path), path + "/")
        elif one.is_file(follow_symlinks=False):
            seen = one.stat(follow_symlinks=False)
            yield Found(path, seen.st_size, seen.st_mtime_ns)


@define
class _Work:
    """Hashes ``files`` in parallel; ``hashes`` maps path to hex digest."""

    folder: Path
    files: list[Found]
    hashes: dict[str, str]
    report: Report | None
    stop: Event
    _lock: Lock = field(factory=Lock, init=False)
    _bytes: int = field(default=0, init=False)
    _total: int = field(default=0, init=False)

    def run(self, workers: int | None, save: Callable[[], None]) -> None:
        """Hash what is not in ``hashes`` yet; ``save`` is called at intervals and on failure."""
        self._total = sum(one.size for one in self.files)
        self._bytes = sum(one.size for one in self.files if one.path in self.hashes)
        left = iter([one for one in self.files if one.path not in self.hashes])
        count = workers or os.cpu_count() or 1
        saved_at = self._bytes
        with ThreadPoolExecutor(count, thread_name_prefix="hash") as pool:
            running: set[Future[None]] = {
                pool.submit(self._hash, one) for one in islice(left, count)
            }
            try:
                while running:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for one in done:
                        one.result()
                    running |= {pool.submit(self._hash, one) for one in islice(left, len(done))}
                    if self._bytes - saved_at >= SAVE_EVERY:
                        saved_at = self._bytes
                        save()
            except BaseException:
                self.stop.set()
                wait(running)
                save()
                raise

    def _hash(self, one: Found) -> None:
        digest = hashlib.sha256()
        try:
            with open(self.folder / one.path, "rb", buffering=0) as file:
                while chunk := file.read(CHUNK):
                    if self.stop.is_set():
                        raise BuildFailed("stopped; start it again to go on")
                    digest.update(chunk)
                    self._moved(one.path, len(chunk))
                seen = os.fstat(file.fileno())
        except OSError as why:
            raise BuildFailed(f"{one.path} cannot be read: {why.strerror}") from None
        if (seen.st_size, seen.st_mtime_ns) != (one.size, one.mtime_ns):
            raise BuildFailed(f"{one.path} changed while it was read; let nothing write there")
        with self._lock:
            self.hashes[one.path] = digest.hexdigest()
        self._moved(one.path, 0)

    def _moved(self, path: str, count: int) -> None:
        with self._lock:
            self._bytes += count
            if self.report is not None:
                done, files = len(self.hashes), len(self.files)
                self.report(Progress(done, files, self._bytes, self._total, path))


def _partial(output: Path) -> Path:
    return output.with_name(output.name + ".partial")


def _load_partial(path: Path, build: str) -> dict[Found, str]:
    """Finished hashes of an interrupted run; an unreadable file counts as empty."""
    try:
        value = json.parse(path.read_bytes())
        if value["build"] != build:
            return {}
        return {Found(p, size, mtime): str(sha) for p, size, mtime, sha in value["done"]}
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
