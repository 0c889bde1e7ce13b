"""The launcher's own program: its copy in the user's folder, and its newer versions.

On Windows each version has a folder of its own, because Windows does not replace a program that
runs. Beside these folders are two programs with fixed paths. Shortcuts and links start these two
programs, which start the version that a small file names.

A new version is on trial until it has served its page or opened its prompt. If it never does, the
next start returns to the previous version, and the new version is not installed again.
"""

import filecmp
import io
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from attrs import define, frozen

import svcserver
from svcserver.edge.launcher_update import is_version, order
from svcserver.kernel.system import epoch
from svcserver.launcher.locked_files import do_all, long_path, patiently, replace, unlink
from svcserver.launcher.places import Places

WINDOW, CONSOLE = "svc-launcher.exe", "svc-launcher-cli.exe"
PARTS = (WINDOW, CONSOLE, "app")  # of the program's folder; the rest is the player's, or unused
FOLDER = "svc-launcher"  # of the zip
PACKED = "svc-launcher.pyz"
# the files that name a version; svc-launcher.c reads them
CURRENT = "current.txt"  # the version that works
NEXT = "next.txt"  # a new version, for which the next start begins a trial
TRIED = "tried.txt"  # a new version on trial, or one that has failed
NEXT_FILE, TRIED_FILE = "-next.pyz", "-tried.pyz"  # the same for a single-file launcher: suffixes
MOST_UNPACKED = 256 * 1024 * 1024  # bytes
TRIAL_S = 60.0  # how long a new version may take to print its version
STAGING = ".new"  # suffix of an incomplete version
_FOLDER = "SVC_LAUNCHER_FOLDER"  # the environment variable with the folder that the shell deletes
STALE_S = 3600.0  # after this time, nobody completes an incomplete version
_NO_WINDOW = 0x08000000  # a console program of Windows opens no window
_METADATA = re.compile(r"(?:.*/)?svc_launcher-([^-/]+)\.dist-info/METADATA")


class UpdateFailed(Exception):
    """The error when a new version is not installed; its text is the reason."""


class OwnProgram(Protocol):
    """The program of this launcher, and the newer versions that can replace it."""

    @property
    def file_name(self) -> str:
        """The name of the file that hosts offer as an update of this program."""

    def add(self, version: str, content: bytes) -> None:
        """Install another version for the next start, or raise UpdateFailed or OSError."""

    def command(self) -> list[str]:
        """Return the command that starts the newest version."""

    @property
    def failed(self) -> str:
        """The version that has failed on this PC, or ""."""

    def install(self) -> None:
        """Install this program for the user, or repair the installed copy; raises OSError."""

    def newer_command(self) -> list[str]:
        """Return the command of the version that must run instead of this program, or []."""

    def confirm(self) -> None:
        """Record that this version works, so that the next start keeps it; raises OSError."""

    def give_way(self) -> None:
        """Let the launcher try a new version again when it next starts; raises OSError."""

    def remove(self) -> None:
        """Delete the copies of the program; raises OSError."""


Run = Callable[[Sequence[str]], str]


def first_line(command: Sequence[str]) -> str:
    """Run a program without a window; return the first line that it prints."""
    flags = _NO_WINDOW if sys.platform == "win32" else 0
    try:
        ran = subprocess.run(
            list(command),
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=TRIAL_S,
            creationflags=flags,
        )
    except subprocess.TimeoutExpired:
        return ""
    return ran.stdout.decode(errors="replace").partition("\n")[0].strip()


def try_version(command: Sequence[str], version: str, run: Run) -> None:
    """Raise UpdateFailed if the program does not start, or if it is not this ``version``."""
    line = run([*command, "--version"])
    if line != f"svc-launcher {version}":
        raise UpdateFailed("the new version does not start on this PC")


@define
class WindowsProgram:
    """The versions of the launcher in ``root``; ``source`` is the folder of the running version."""

    root: Path
    source: Path
    version: str
    name: str = WINDOW  # of the running program
    run: Run = first_line

    @property
    def file_name(self) -> str:
        return "svc-launcher-windows.zip"

    @property
    def installed(self) -> bool:
        """True if the running program is one of the versions in ``root``."""
        return _is_same(self.source.parent, self.root)

    def install(self) -> None:
        """Install this program for the user, or repair the installed copy; raises OSError.

        An installed older version stays current until this version has started successfully.
        """
        current = self._named(CURRENT)
        if self.installed or not is_version(self.version):
            return
        if order(current) > order(self.version):
            return
        target = self.root / self.version
        if not target.exists():
            staging = self.root / f"{self.version}-{os.getpid()}{STAGING}"
            try:
                self._copy_to(staging)
                patiently(lambda: staging.rename(target), staging)
            except OSError:
                if not target.exists():  # another start was faster
                    raise
            finally:
                _remove_folder(staging)
        elif not self._runs_from(target):
            self._copy_to(target)
        if current in ("", self.version):
            self._copy_starters(target)
            self._name(CURRENT, self.version)
        elif order(current) < order(self.version) and self._text(TRIED) != self.version:
            self._name(NEXT, self.version)

    def _copy_starters(self, source: Path) -> None:
        """Copy the two programs that have a fixed path.

        A copy that is running cannot be replaced; it stays unchanged, and still works.
        """
        for name in (WINDOW, CONSOLE):
            starter = self.root / name
            if not starter.exists() or not filecmp.cmp(source / name, starter, shallow=False):
                fresh = starter.with_name(f"{name}-{os.getpid()}{STAGING}")
                shutil.copyfile(source / name, fresh)
                try:
                    replace(fresh, starter)
                except PermissionError:
                    unlink(fresh)

    def _text(self, name: str) -> str:
        """Return the version that the file ``name`` contains, or ""."""
        try:
            text = (self.root / name).read_text("ascii", "replace")
        except OSError:
            return ""
        return text if is_version(text) else ""

    def _named(self, name: str) -> str:
        """Return the version that the file ``name`` contains, or "" if it is not installed."""
        version = self._text(name)
        return version if (self.root / version / WINDOW).is_file() else ""

    def _name(self, name: str, version: str) -> None:
        fresh = self.root / f"{name}{STAGING}"
        fresh.write_text(version, "ascii")
        replace(fresh, self.root / name)

    def _copy_to(self, target: Path) -> None:
        """Copy the files that are missing or damaged in ``target``.

        Attributes of a file, such as read-only, are not copied.
        """
        for source in self._files():
            copy = long_path(target / source.relative_to(self.source))
            if copy.exists() and filecmp.cmp(long_path(source), copy, shallow=False):
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            fresh = copy.with_name(copy.name + STAGING)
            shutil.copyfile(long_path(source), fresh)
            replace(fresh, copy)

    def _files(self) -> list[Path]:
        parts = [self.source / part for part in PARTS]
        inner = [path for part in parts if part.is_dir() for path in part.rglob("*")]
        return [path for path in (*parts, *inner) if path.is_file()]

    def _runs_from(self, folder: Path) -> bool:
        """Return whether the program in ``folder`` is running."""
        program = folder / WINDOW
        try:
            program.rename(program)
            with program.open("ab"):
                return False
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def versions(self) -> list[Path]:
        """Return the folders of all complete versions, the newest first."""
        try:
            folders = [folder for folder in self.root.iterdir() if is_version(folder.name)]
        except OSError:
            return []
        usable = [folder for folder in folders if (folder / WINDOW).is_file()]
        return sorted(usable, key=lambda folder: order(folder.name), reverse=True)

    def newer_command(self) -> list[str]:
        """Return the command of the version that must run instead of this program, or [].

        A new version is marked as failed before its first run; ``confirm`` removes the mark.
        """
        upcoming = self._named(NEXT)
        version = upcoming or self._named(CURRENT)
        is_this = self.installed and version == self.version
        if not version or is_this or order(version) < order(self.version):
            return []
        if upcoming:
            replace(self.root / NEXT, self.root / TRIED)
        return [str(self.root / version / self.name)]

    def command(self) -> list[str]:
        return [str(self._starter(self.name))]

    def opening(self) -> list[str]:
        """Return the command that a link or the Start menu runs; the command opens no console."""
        return [str(self._starter(WINDOW))]

    def _starter(self, name: str) -> Path:
        starter = self.root / name
        return starter if starter.is_file() and self._named(CURRENT) else self.source / name

    @property
    def failed(self) -> str:
        tried = self._text(TRIED)
        return "" if tried == self.version else tried

    def confirm(self) -> None:
        if not self.installed:
            return
        if self._text(CURRENT) != self.version:
            self._name(CURRENT, self.version)
        if self._text(TRIED) == self.version:
            unlink(self.root / TRIED)
        self._copy_starters(self.source)

    def give_way(self) -> None:
        if self.installed and self._text(TRIED) == self.version and not self._text(NEXT):
            replace(self.root / TRIED, self.root / NEXT)

    def add(self, version: str, content: bytes) -> None:
        staging, target = self.root / f"{version}{STAGING}", self.root / version
        _remove_folder(staging)
        try:
            _unpack(content, staging)
            folder = staging / FOLDER
            try_version([str(folder / CONSOLE)], version, self.run)
            if not (folder / WINDOW).is_file():
                raise UpdateFailed("the new version is incomplete")
            _remove_folder(target)
            patiently(lambda: folder.rename(target), folder)
            self._name(NEXT, version)
        finally:
            _remove_folder(staging)

    def tidy(self) -> None:
        """Delete failed versions, abandoned incomplete versions, and unneeded old versions."""
        working = [folder for folder in self.versions() if folder.name != self.failed]
        needed = {*working[:2], self.root / self._text(CURRENT), self.root / self._text(NEXT)}
        for folder in self.root.iterdir() if self.root.is_dir() else ():
            is_fresh = folder.name.endswith(STAGING) and not _is_stale(folder)
            is_needed = folder in needed or _is_same(folder, self.source)
            if folder.is_dir() and not is_needed and not is_fresh:
                _remove_folder(folder)

    def remove(self) -> None:
        """Delete all versions; the system deletes a running version once it has ended."""
        if self.installed:
            remove_later(self.root)
        elif self.root.exists():
            try:
                patiently(lambda: shutil.rmtree(long_path(self.root)), self.root)
            except OSError:
                _remove_folder(self.root)
                raise


def _is_same(folder: Path, other_name: Path) -> bool:
    """Return whether two paths lead to one folder, which may have two names on Windows."""
    try:
        return os.path.samefile(folder, other_name)
    except OSError:
        return False


def _is_stale(folder: Path) -> bool:
    """Return whether an incomplete version is so old that its installation must have failed."""
    try:
        return epoch() - folder.stat().st_mtime > STALE_S
    except OSError:
        return False


def _unpack(content: bytes, folder: Path) -> None:
    """Unpack a zip; ``zipfile`` itself removes drives and ``..`` from the names."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            if sum(entry.file_size for entry in packed.infolist()) > MOST_UNPACKED:
                raise UpdateFailed("the new version is too large")
            packed.extractall(long_path(folder))
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError):
        # RuntimeError: encrypted, or compressed in an unknown way
        raise UpdateFailed("the new version is damaged") from None


def _remove_folder(folder: Path) -> None:
    """Delete as much of a folder as possible; the next start tries again."""
    shutil.rmtree(long_path(folder), ignore_errors=True)


def remove_later(folder: Path) -> None:
    """Let the system's shell delete a folder, once this program has ended.

    The path is in an environment variable, so that no part of the path is run as a command. The
    shell starts in the system's folder, because it cannot start in a network folder.
    """
    system = os.environ.get("SYSTEMROOT", r"C:\Windows")
    shell = os.path.join(system, "System32", "cmd.exe")
    remove = f'rmdir /s /q "%{_FOLDER}%"'
    steps = [f"ping -n {wait_s} 127.0.0.1 & {remove}" for wait_s in (3, 6, 30)]
    devnull = subprocess.DEVNULL
    subprocess.Popen(
        f'"{shell}" /d /v:off /q /c {" & ".join(steps)}',
        cwd=system,
        env={**os.environ, _FOLDER: str(folder)},
        stdin=devnull,
        stdout=devnull,
        stderr=devnull,
        creationflags=_NO_WINDOW,
    )


@frozen
class PackedProgram:
    """The launcher as a single ``.pyz`` file, which runs on several versions of Python."""

    file: Path
    version: str
    run: Run = first_line
    copy: Path | None = None  # what the desktop entry starts
    is_trial: bool = False  # this version runs from the file beside ``file``
    unpacked: Path | None = None  # the folder that the running file was unpacked into

    @property
    def file_name(self) -> str:
        return PACKED

    @property
    def _base(self) -> Path:
        """The file that is updated."""
        return self.copy or self.file

    @property
    def _next(self) -> Path:
        return self._base.with_name(self._base.stem + NEXT_FILE)

    @property
    def _tried(self) -> Path:
        return self._base.with_name(self._base.stem + TRIED_FILE)

    @property
    def _fresh(self) -> Path:
        return self._base.with_name(self._base.stem + "-new.pyz")

    @property
    def _is_copy(self) -> bool:
        return self.copy is None or _is_same(self.file, self.copy)

    def install(self) -> None:
        """Install this file for the user, unless the installed copy is newer; raises OSError.

        An installed older copy is replaced only after this version has started successfully.
        """
        if self._is_copy:
            return
        current = file_version(self._base)
        is_known = any(map(self._is_same_as, (self._base, self._next, self._tried)))
        if not is_version(current):
            self._put(self._base)
        elif order(current) <= order(self.version) and not is_known:
            self._put(self._next)

    def _is_same_as(self, file: Path) -> bool:
        return file.exists() and filecmp.cmp(self.file, file, shallow=False)

    def _put(self, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(target.name + STAGING)
        shutil.copyfile(self.file, fresh)
        fresh.chmod(0o755)
        replace(fresh, target)

    def newer_command(self) -> list[str]:
        """Return the command of the version that must run instead of this program, or [].

        A new version is marked as failed before its first run; ``confirm`` removes the mark.
        """
        if self.is_trial:
            return []
        if self._next.exists() and order(file_version(self._next)) >= order(self.version):
            replace(self._next, self._tried)
            return [sys.executable, str(self._tried)]
        if self._is_copy or order(file_version(self._base)) < order(self.version):
            return []
        return [sys.executable, str(self._base)]

    @property
    def failed(self) -> str:
        return "" if self.is_trial else file_version(self._tried)

    def confirm(self) -> None:
        if self.is_trial and self._tried.exists():
            replace(self._tried, self._base)
        for folder in self._unpacked():
            if folder != self.unpacked and _is_stale(folder):  # another start may need it
                _remove_folder(folder)

    def _unpacked(self) -> list[Path]:
        """Return the folders into which any version of this program was unpacked."""
        if self.unpacked is None:
            return []
        files = (self.file, self._base, self._next, self._tried, self._fresh)
        starts = tuple(f"{file.name}_" for file in files)
        folders = self.unpacked.parent.iterdir()
        return [folder for folder in folders if folder.name.startswith(starts) and folder.is_dir()]

    def give_way(self) -> None:
        if self.is_trial and self._tried.exists():
            replace(self._tried, self._next)

    def remove(self) -> None:
        """Delete the user's copies of the launcher, and the folders into which they were unpacked.

        Raises OSError.
        """
        files = (self.copy, self._next, self._tried, self._fresh) if self.copy is not None else ()
        do_all(*(partial(unlink, file) for file in files))
        for folder in self._unpacked():
            _remove_folder(folder)
            unlink(folder.with_name(f".{folder.name}_lock"))

    def add(self, version: str, content: bytes) -> None:
        fresh = self._fresh
        try:
            fresh.write_bytes(content)
            fresh.chmod(self._base.stat().st_mode)
            try_version([sys.executable, str(fresh)], version, self.run)
            replace(fresh, self._next)
        finally:
            unlink(fresh)

    def command(self) -> list[str]:
        return [sys.executable, str(self._base)]


def file_version(file: Path) -> str:
    """Return the version of a launcher's ``.pyz`` file; "" if the file is missing or damaged."""
    try:
        with zipfile.ZipFile(file) as packed:
            matches = [_METADATA.fullmatch(name) for name in packed.namelist()]
    except (OSError, zipfile.BadZipFile):
        return ""
    return next((match[1] for match in matches if match is not None), "")


def fixed_file(started: Path) -> Path:
    """Return the launcher's permanent file; ``started`` is the file that this process runs.

    The two differ only during the first start of a new version.
    """
    name = started.name
    return started.with_name(f"{name.removesuffix(TRIED_FILE)}.pyz") if is_trial(name) else started


def is_trial(name: str) -> bool:
    """Return whether a file with this name is a new launcher that has not yet run successfully."""
    return name.endswith(TRIED_FILE)


def unpacked_folder(file: Path, module: Path) -> Path | None:
    """Return the folder into which the launcher's ``.pyz`` file was unpacked, or None.

    ``module`` is the path of a module in this folder.
    """
    site = module.parent.parent
    is_of_file = site.parent.name.startswith(f"{file.resolve().name}_")
    return site.parent if is_of_file and site.name == "site-packages" else None


def packed_program(places: Places, version: str, *, copied: bool = True) -> PackedProgram | None:
    """Return this launcher's program if it is a ``.pyz`` file, else None.

    ``copied`` says whether the file is to be copied into the user's own folder. On Windows, the
    file is never copied.
    """
    started = Path(sys.argv[0]).absolute()
    if started.suffix != ".pyz" or not started.is_file():
        return None
    has_copy = copied and sys.platform != "win32" and places.program is not None
    copy = Path(places.program, PACKED) if has_copy and places.program is not None else None
    return PackedProgram(
        fixed_file(started),
        version,
        copy=copy,
        is_trial=is_trial(started.name),
        unpacked=unpacked_folder(started, Path(svcserver.__file__)),
    )


def windows_program(places: Places, version: str) -> WindowsProgram | None:
    """Return this launcher's program if it is a Windows executable, else None."""
    program = Path(sys.executable)
    if places.program is None or places.menu is None:
        return None
    if program.name.lower() not in (WINDOW, CONSOLE):
        return None
    return WindowsProgram(Path(places.program), program.parent, version, program.name.lower())


def own_program(places: Places, version: str, *, copied: bool = True) -> OwnProgram | None:
    """Return this launcher's program if it can update itself, else None."""
    return packed_program(places, version, copied=copied) or windows_program(places, version)
