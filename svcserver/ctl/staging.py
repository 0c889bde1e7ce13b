"""Where a new host's files lie until all are there, and how they come into place.

A stop at any moment, by ``kill -9`` too, leaves a host that works, or what the next command of the
same folder clears away or finishes: ``.new-...`` holds files of which nothing counts yet;
``.whole-...`` holds all of them, and some may be in place. Of a host that ``svcctl init`` makes the
database may know the owner whose key is among them; one that is restored is known to nobody.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import asdict, define, frozen

from svcserver.ctl.host import OWNER_KEY
from svcserver.ctl.output import echo, fail, warn
from svcserver.kernel import json
from svcserver.kernel.disk import sync_file, sync_folder, sync_tree
from svcserver.kernel.secrets import hex_token

NEW, WHOLE = ".new-", ".whole-"
NOTE = ".init.json"  # no backup holds such a name, so none of its files lies in its place
LAST = "metagame.env"  # by which a folder counts as a host (packaging/image/start)


@frozen
class Origin:
    """The backup that a restored host is of, and what is told of it once it is there."""

    file: str
    sha256: str
    kind: str = ""  # of its database
    made_anew: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # settings of which the backup has no value
    left_out: tuple[str, ...] = ()  # files that the backup left out, and nothing else made


@frozen
class Note:
    """What is known of a host before it is there: its folder of data, and what is told of it."""

    data: Path
    owner: str = ""
    fingerprint: str | None = None
    origin: Origin | None = None  # of a host that is restored, which has no owner of its own

    def write(self, folder: Path) -> None:
        """Put it into a staging folder; one that is there is replaced in one step.

        It is on the disk before the first file: those without it are cleared away by nobody.
        """
        origin = asdict(self.origin) if self.origin else None
        said = {"owner": self.owner, "fingerprint": self.fingerprint, "origin": origin}
        fresh = folder / f"{NOTE}.new"
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(json.dump({"data": str(self.data), **said}))
        sync_file(fresh)
        os.replace(fresh, folder / NOTE)
        sync_folder(folder)

    @classmethod
    def read(cls, folder: Path) -> Note | None:
        """That of a staging folder; None where it was not written to its end."""
        try:
            said = json.read((folder / NOTE).read_bytes())
            origin = said["origin"] and Origin(**said["origin"])
            return cls(Path(said["data"]), said["owner"], said["fingerprint"], origin)
        except (FileNotFoundError, json.BadJson, KeyError, TypeError):
            return None


@define
class Staged:
    """A new host's files: ``settings`` lies within the host's folder ``goal``.

    ``kept``: what is there must outlive a failure, since the database may know the owner by it, or
    some of it may be in place.
    """

    goal: Path
    settings: Path
    note: Note
    kept: bool = False

    @property
    def data(self) -> Path:
        """Where the files for the folder of data lie; ``settings`` where the two are one."""
        if self.note.data == self.goal:
            return self.settings
        return self.note.data / f"{NEW}{self.settings.name.rpartition('-')[2]}"

    @property
    def folders(self) -> str:
        """Where its files lie, as words for a shell."""
        return shlex.join(str(one) for one in {self.settings: None, self.data: None})

    def complete(self) -> None:
        """All files are there; what comes next is finished by another, if not by this process.

        They are on the disk before the database is: it may be another machine, and know the owner
        after this one was without power.
        """
        for one in (self.data, self.settings):
            sync_tree(one)
        self._rename_to(WHOLE)
        sync_folder(self.goal)

    def is_placed(self) -> bool:
        """Whether some or all are in place; the first one is the owner's key."""
        return not (self.settings / OWNER_KEY).exists()

    def moves(self) -> dict[Path, Path]:
        """What is still to be moved, and where to, in its order."""
        found = {one: self.note.data / one.name for one in _within(self.data)}
        found.update((one, self.goal / one.name) for one in _within(self.settings))
        return dict(sorted(found.items(), key=lambda move: _turn(move[0].name)))

    def need_room(self) -> None:
        """Fail where a name that is still to be moved exists in its place."""
        for place in self.moves().values():
            if os.path.lexists(place):
                cure = "move that away, and repeat this" if self.kept else "choose another folder"
                done = "" if self.kept else "nothing was changed: "
                fail(f"{place.parent} already holds {place.name}; {done}{cure}")

    def place(self) -> None:
        """Move what is still to be moved."""
        self.need_room()
        for one, place in self.moves().items():
            one.rename(place)
        for folder in (self.note.data, self.goal):
            sync_folder(folder)
        with _removing(self.folders):
            self._remove()

    def is_untouched(self) -> bool:
        """Whether the host's folder holds nothing else, so that no file is in place."""
        return list(self.goal.iterdir()) == [self.settings]

    def discard(self) -> None:
        """Remove it: nothing of it counts."""
        with _removing(self.folders):
            self._rename_to(NEW)  # before the first file is gone: the rest would be taken for all
            self._remove()

    def _rename_to(self, state: str) -> None:
        named = self.settings.with_name(f"{state}{self.settings.name.rpartition('-')[2]}")
        os.rename(self.settings, named)
        self.settings = named

    def _remove(self) -> None:
        """Remove the rest; the note goes last, for by it the next command finds what is left."""
        data = [] if self.data == self.settings else [self.data]
        for one in (*data, *_within(self.settings), self.settings):
            if one.is_dir():
                shutil.rmtree(one)
            else:
                one.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder, private, and be the only one who makes a host there. Raises OSError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        fail(f"{folder} is no folder; choose another name")
    try:
        import fcntl
    except ImportError:  # Windows: nobody but the owner keeps two commands apart
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fail(f"another command makes a host in {folder}: wait until it has ended")
        yield
    finally:
        os.close(handle)


@contextmanager
def new(folder: Path, note: Note) -> Iterator[Staged]:
    """Empty folders to write into, within ``folder`` and that of data; removed on failure."""
    staged = Staged(folder, folder / f"{NEW}{hex_token(8)}", note)
    with _cleared(staged):
        staged.settings.mkdir(mode=0o700)
        note.write(staged.settings)
        if staged.data != staged.settings:
            _make_data(staged)
        yield staged


def _make_data(staged: Staged) -> None:
    data = staged.note.data
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        staged.data.mkdir(mode=0o700)
    except OSError as why:
        fail(f"{data} cannot be written: {why.strerror}")


@contextmanager
def begun(folder: Path) -> Iterator[Staged | None]:
    """What an earlier command that was ended has left whole; clears away what it left in pieces."""
    whole = None
    for one in sorted(folder.iterdir()):
        if not one.name.startswith((NEW, WHOLE)) or not one.is_dir():
            continue
        note = Note.read(one)
        if note is None:
            _noteless(one)
            continue
        staged = Staged(folder, one, note, kept=True)
        if one.name.startswith(WHOLE) and (one / LAST).exists():
            whole = staged
        else:
            staged.discard()
    if whole is None:
        yield None
        return
    with _cleared(whole):
        yield whole


def tell_of_finishing(folder: Path) -> None:
    """Say that no new host is made, but one that an earlier command began."""
    echo(f"finishing the host that was begun in {folder}, as it was", err=True)


def _noteless(folder: Path) -> None:
    """One whose note cannot be read, as of an older version: cleared away if it has no more."""
    if not _within(folder):
        with _removing(shlex.quote(str(folder))):
            shutil.rmtree(folder)
    elif folder.name.startswith(WHOLE):
        fail(
            f"{folder} has the files of a host that was begun, and its {NOTE} cannot be read; the "
            "database may know the owner whose key is there: move that folder away, and repeat this"
        )
    else:
        said = f"{folder} holds files, perhaps keys, of a host that never was finished"
        warn(f"{said}; remove it: rm -r {shlex.quote(str(folder))}")


@contextmanager
def _cleared(staged: Staged) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if not staged.kept and staged.settings.exists():
            staged.discard()
        raise


@contextmanager
def _removing(folders: str) -> Iterator[None]:
    """Where the body cannot remove what is staged, one line says so; nobody starts a host by it."""
    try:
        yield
    except OSError as why:
        said = f"what svcctl has staged cannot be removed: {why.strerror}"
        warn(f"{said}; do it by hand: rm -r {folders}")


def _turn(name: str) -> int:
    """When a file comes into place: what a service or the stack starts by comes after the rest."""
    if name == OWNER_KEY:
        return 0
    return 3 if name == LAST else 2 if name.endswith(".env") else 1


def _within(folder: Path) -> list[Path]:
    """The files of a staging folder that belong into place."""
    found = sorted(folder.iterdir()) if folder.exists() else ()
    return [one for one in found if not one.name.startswith(NOTE)]
