"""The launcher's own program: its copy in the user's folder on Windows, and its newer versions.

Each version has a folder of its own, because Windows does not replace a program that runs. A
version is complete once its folder has its final name. An older version starts the newest one, so
an old shortcut still works, and an update that fails changes nothing.
"""

from __future__ import annotations

import filecmp
import io
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from attrs import define, frozen

from svcserver.edge.launcher_update import BadOffer, is_newer, numbers, packed_version
from svcserver.launcher.locked_files import long_path, patiently, replace, unlink
from svcserver.launcher.places import Places

WINDOW, CONSOLE = "svc-launcher.exe", "svc-launcher-cli.exe"
PARTS = (WINDOW, CONSOLE, "app")  # of the program's folder; the rest is the player's, or unused
FOLDER = "svc-launcher"  # of the zip
PACKED = "svc-launcher.pyz"
MOST_UNPACKED = 256 * 1024 * 1024  # bytes
TRIAL_S = 60.0  # how long a new version may take to print its version
STAGING = ".new"  # ends the name of an incomplete version
_FOLDER = "SVC_LAUNCHER_FOLDER"  # the variable with the folder that the shell deletes
_NO_WINDOW = 0x08000000  # a console program of Windows opens no window


class UpdateFailed(Exception):
    """The error when a new version is not installed; its text is the reason."""


class OwnProgram(Protocol):
    """The program of this launcher, which can be replaced."""

    @property
    def file_name(self) -> str:
        """The name of the program's file in a host's list."""

    def add(self, version: str, content: bytes) -> None:
        """Install another version for the next start, or raise UpdateFailed or OSError."""

    def command(self) -> list[str]:
        """Return the command that starts the newest version."""


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
    """Raise UpdateFailed unless the program starts and is this version."""
    line = run([*command, "--version"])
    if line != f"svc-launcher {version}":
        raise UpdateFailed("the new version does not start on this PC")


@define
class WindowsProgram:
    """Versions of the launcher below ``root``; ``source`` is the running version's folder."""

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
        """True if the running program is one of the versions below ``root``."""
        return _is_same(self.source.parent, self.root)

    def install(self) -> None:
        """Copy the running program for this user, or repair its copy; raises OSError."""
        if self.installed:
            return
        target = self.root / self.version
        if not target.exists():
            staging = self.root / f"{self.version}-{os.getpid()}{STAGING}"
            try:
                self._copy_to(staging)
                patiently(lambda: staging.rename(target), staging)
            finally:
                _remove_folder(staging)
        elif not self._runs_from(target):
            self._copy_to(target)

    def _copy_to(self, target: Path) -> None:
        """Copy the program's files that ``target`` lacks, without attributes such as read-only."""
        for source in self._files():
            copy = long_path(target / source.relative_to(self.source))
            if copy.exists() and copy.stat().st_size == source.stat().st_size:
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            partial = copy.with_name(copy.name + STAGING)
            shutil.copyfile(long_path(source), partial)
            replace(partial, copy)

    def _files(self) -> list[Path]:
        parts = [self.source / part for part in PARTS]
        inner = [path for part in parts if part.is_dir() for path in part.rglob("*")]
        return [path for path in (*parts, *inner) if path.is_file()]

    def _runs_from(self, folder: Path) -> bool:
        """Return whether a program in this folder runs; Windows does not rename such a program."""
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
            folders = [folder for folder in self.root.iterdir() if numbers(folder.name)]
        except OSError:
            return []
        usable = [folder for folder in folders if (folder / WINDOW).is_file()]
        return sorted(usable, key=lambda folder: numbers(folder.name), reverse=True)

    def newest(self) -> Path:
        """Return the folder of the newest version, or of the running one if none is installed."""
        return next(iter(self.versions()), self.source)

    def newer_command(self) -> list[str]:
        """Return the command of the version to run instead of this one; empty if there is none."""
        newest = self.newest()
        return [] if _is_same(newest, self.source) else [str(newest / self.name)]

    def command(self) -> list[str]:
        return [str(self.newest() / self.name)]

    def opening(self) -> list[str]:
        """Return the command for links and the Start menu, which opens no console."""
        return [str(self.newest() / WINDOW)]

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
        finally:
            _remove_folder(staging)

    def tidy(self) -> None:
        """Delete incomplete versions, and all versions but the newest two."""
        current = self.versions()[:2]
        for folder in self.root.iterdir() if self.root.is_dir() else ():
            if folder not in current and not _is_same(folder, self.source):
                _remove_folder(folder)

    def remove(self) -> None:
        """Delete all versions; the system deletes a running version once it has ended."""
        if self.installed:
            remove_later(self.root)
        elif self.root.exists():
            patiently(lambda: shutil.rmtree(long_path(self.root)), self.root)


def _is_same(folder: Path, other_name: Path) -> bool:
    """Return whether two paths name one existing folder; Windows also has short names for it."""
    try:
        return os.path.samefile(folder, other_name)
    except OSError:
        return False


def _unpack(content: bytes, folder: Path) -> None:
    """Unpack a zip; ``zipfile`` itself removes drives and ``..`` from the names."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            if sum(entry.file_size for entry in packed.infolist()) > MOST_UNPACKED:
                raise UpdateFailed("the new version is too large")
            packed.extractall(long_path(folder))
    except zipfile.BadZipFile:
        raise UpdateFailed("the new version is damaged") from None


def _remove_folder(folder: Path) -> None:
    """Delete as much of a folder as possible; the next start tries again."""
    shutil.rmtree(long_path(folder), ignore_errors=True)


def remove_later(folder: Path) -> None:
    """Let the system's shell delete a folder, once this program has ended.

    The path is in a variable, so that the shell reads no character of it as a command. The shell
    cannot work in a network folder, so it works in the system's. ``ping`` is its way to wait.
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
    """The launcher as a single file that runs on any Python, with a copy for the user on Linux."""

    file: Path
    run: Run = first_line
    copy: Path | None = None  # what the desktop entry starts

    @property
    def file_name(self) -> str:
        return PACKED

    def install(self) -> None:
        """Copy this file for the user, unless the copy is newer; raises OSError."""
        if self.copy is None or self._is_copy(self.copy):
            return
        if self.copy.exists():
            is_old = is_newer(_packed_version(self.copy), _packed_version(self.file))
            if is_old or filecmp.cmp(self.file, self.copy, shallow=False):
                return
        self.copy.parent.mkdir(parents=True, exist_ok=True)
        partial = self.copy.with_name(self.copy.name + STAGING)
        shutil.copyfile(self.file, partial)
        partial.chmod(0o755)
        replace(partial, self.copy)

    def newer_command(self) -> list[str]:
        """Return the command that starts the copy; empty if this file is the copy."""
        if self.copy is None or not self.copy.exists() or self._is_copy(self.copy):
            return []
        return [sys.executable, str(self.copy)]

    def _is_copy(self, copy: Path) -> bool:
        return copy.exists() and os.path.samefile(self.file, copy)

    def remove(self) -> None:
        """Delete the copy; raises OSError."""
        if self.copy is not None:
            self.copy.unlink(missing_ok=True)

    def add(self, version: str, content: bytes) -> None:
        fresh = self.file.with_name(self.file.name + STAGING)
        try:
            fresh.write_bytes(content)
            fresh.chmod(self.file.stat().st_mode)
            try_version([sys.executable, str(fresh)], version, self.run)
            replace(fresh, self.file)
        finally:
            unlink(fresh)

    def command(self) -> list[str]:
        return [sys.executable, str(self.file)]


def _packed_version(file: Path) -> str:
    """Return the version of a packed launcher; "" if it is no released version."""
    try:
        return packed_version(file)
    except BadOffer:
        return ""


def packed_program(places: Places) -> PackedProgram | None:
    """Return the running single file, or None if the launcher was started in another way."""
    started = Path(sys.argv[0]).absolute()
    if started.suffix != ".pyz" or not started.is_file():
        return None
    if sys.platform == "win32" or places.program is None:
        return PackedProgram(started)
    return PackedProgram(started, copy=Path(places.program, PACKED))


def windows_program(places: Places, version: str) -> WindowsProgram | None:
    """Return the running Windows program, or None if the launcher was started in another way."""
    program = Path(sys.executable)
    if places.program is None or places.menu is None:
        return None
    if program.name.lower() not in (WINDOW, CONSOLE):
        return None
    return WindowsProgram(Path(places.program), program.parent, version, program.name.lower())


def own_program(places: Places, version: str) -> OwnProgram | None:
    """Return this launcher's program if it can update itself, else None."""
    return packed_program(places) or windows_program(places, version)
