"""The registration of the launcher for ``svc:`` links, and its removal.

Linux uses a desktop file, Windows the user's part of the registry. Neither needs an administrator.
"""

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from attrs import define

from svcserver.launcher.locked_files import do_all
from svcserver.launcher.own_program import fixed_file
from svcserver.launcher.places import Places

SCHEME = "svc"
DESKTOP_FILE = "svc-launcher.desktop"
_HANDLED = f"x-scheme-handler/{SCHEME}"  # the MIME type of links on Linux
_KEY = rf"Software\Classes\{SCHEME}"
_OPENING = rf"{_KEY}\shell\open\command"
_WRITTEN = r"Software\svc-launcher"  # its value is the command that the launcher registered
TIMEOUT_S = 10
_DESKTOP = """\
[Desktop Entry]
Type=Application
Name=svc launcher
Comment=Join a host and play
Exec={command} -- %u
Icon=svc-launcher
Terminal=false
Categories=Game;
"""
_LINKS = f"MimeType={_HANDLED};\n"


class Scheme(Protocol):
    """The launcher's registration for ``svc:`` links on one operating system."""

    def add(self, *, over_another: bool = False) -> str:
        """Register the launcher for ``svc:`` links; return a text for the player.

        A registration by another program is replaced only if ``over_another`` is true.
        """

    def remove(self) -> str:
        """Remove the registration for ``svc:`` links; return a text for the player."""


@define
class LinuxScheme:
    """The Linux registration for ``svc:`` links: a desktop file, which is also the menu entry."""

    programs: Path
    command: Sequence[str]
    run: Callable[[Sequence[str]], str]  # returns the helper's output, "" if it is missing
    choices: Path  # mimeapps.list, where xdg-mime writes the user's choice

    @property
    def icon(self) -> Path:
        """The icon of the menu entry, in the user's default icon theme."""
        return self.programs.parent / "icons/hicolor/scalable/apps/svc-launcher.svg"

    def add(self, *, over_another: bool = False) -> str:
        """Add the menu entry, and register the launcher for links; see ``Scheme.add``."""
        file = self.programs / DESKTOP_FILE
        current = self.run(["xdg-mime", "query", "default", _HANDLED]).strip()
        is_anothers = current not in ("", DESKTOP_FILE) and not over_another
        before = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
        text = _DESKTOP.format(command=" ".join(map(_quoted, self.command)))
        if not is_anothers or before.endswith(_LINKS):
            text += _LINKS
        if before != text:
            self._write(file, text)
        if is_anothers:
            return _of_another(current)
        if before == text and not over_another:
            return f'Links that begin with "{SCHEME}:" open the launcher ({file}).'
        self.run(["xdg-mime", "default", DESKTOP_FILE, _HANDLED])
        self._refresh()
        return f'Links that begin with "{SCHEME}:" now open the launcher ({file}).'

    def _write(self, file: Path, text: str) -> None:
        self.icon.parent.mkdir(parents=True, exist_ok=True)
        self.icon.write_bytes(files("svcserver.launcher").joinpath("static/icon.svg").read_bytes())
        self.programs.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def remove(self) -> str:
        written = (self.programs / DESKTOP_FILE, self.icon)
        deletions = (partial(file.unlink, missing_ok=True) for file in written)
        do_all(*deletions, self._forget_choice, self._refresh)
        return f'Links that begin with "{SCHEME}:" no longer open the launcher.'

    def _forget_choice(self) -> None:
        """Remove the launcher's line from the user's default programs, and keep all other lines."""
        try:
            lines = self.choices.read_text(encoding="utf-8").splitlines(keepends=True)
        except FileNotFoundError:
            return
        ours = re.compile(rf"{_HANDLED}={re.escape(DESKTOP_FILE)};?\s*\Z")
        remaining = [line for line in lines if not ours.match(line)]
        if remaining != lines:
            fresh = self.choices.with_name(f"{self.choices.name}.{DESKTOP_FILE}")
            fresh.write_text("".join(remaining), encoding="utf-8")
            fresh.replace(self.choices)

    def _refresh(self) -> None:
        self.run(["update-desktop-database", str(self.programs)])


def _of_another(program: str) -> str:
    return (
        f'Links that begin with "{SCHEME}:" still open another program ({program}). '
        "Start the launcher with --links to change that."
    )


def _quoted(part: str) -> str:
    """Quote an argument as desktop files require."""
    escaped = "".join("\\" + char if char in '"`$\\' else char for char in part).replace("%", "%%")
    return f'"{escaped}"'


@define
class UserRegistry:
    """The user's part of the Windows registry (HKEY_CURRENT_USER), through ``winreg``."""

    winreg: Any

    def set(self, key: str, name: str, value: str) -> None:
        """Write a text value; the key is created if it is missing."""
        with self.winreg.CreateKey(self.winreg.HKEY_CURRENT_USER, key) as handle:
            self.winreg.SetValueEx(handle, name, 0, self.winreg.REG_SZ, value)

    def get(self, key: str) -> str | None:
        """Return the default value of a registry key, or None."""
        try:
            return str(self.winreg.QueryValue(self.winreg.HKEY_CURRENT_USER, key))
        except OSError:
            return None

    def delete(self, key: str) -> None:
        """Delete a registry key if it exists; raises OSError if it has sub-keys."""
        try:
            self.winreg.DeleteKey(self.winreg.HKEY_CURRENT_USER, key)
        except FileNotFoundError:
            return
        except OSError as error:
            text = rf"the registry key HKEY_CURRENT_USER\{key} cannot be deleted ({error})"
            raise OSError(text) from error


@define
class WindowsScheme:
    """The Windows registration for ``svc:`` links: keys in HKEY_CURRENT_USER.

    A registration by another program is kept, unless the player wants it replaced. The launcher
    saves the registered command, to recognise this registration after the program has moved.
    """

    registry: UserRegistry
    command: Sequence[str]

    @property
    def _line(self) -> str:
        """The command line; its ``--`` keeps a link from being parsed as an option."""
        return " ".join([*(f'"{part}"' for part in self.command), '-- "%1"'])

    def _is_ours(self, line: str) -> bool:
        return line in (self._line, self.registry.get(_WRITTEN))

    def add(self, *, over_another: bool = False) -> str:
        there, line = self.registry.get(_OPENING), self._line
        if there == line and self.registry.get(_WRITTEN) == line:
            return f'Links that begin with "{SCHEME}:" open the launcher.'
        if there and not self._is_ours(there) and not over_another:
            return _of_another(there)
        self.registry.set(_WRITTEN, "", line)
        self.registry.set(_KEY, "", "URL:svc invite")
        self.registry.set(_KEY, "URL Protocol", "")
        self.registry.set(_OPENING, "", line)
        return f'Links that begin with "{SCHEME}:" now open the launcher.'

    def remove(self) -> str:
        there = self.registry.get(_OPENING)
        ours = not there or self._is_ours(there)
        below = (r"\shell\open\command", r"\shell\open", r"\shell", "") if ours else ()
        keys = (*(_KEY + name for name in below), _WRITTEN)
        do_all(*(partial(self.registry.delete, key) for key in keys))
        if not ours:
            return f'Links that begin with "{SCHEME}:" still open another program ({there}).'
        return f'Links that begin with "{SCHEME}:" no longer open the launcher.'


@define
class NoScheme:
    """A registration that does nothing, for systems without support for ``svc:`` links."""

    def add(self, *, over_another: bool = False) -> str:
        return "This system does not support links. Paste the invite instead."

    def remove(self) -> str:
        return "Nothing was registered."


def own_command() -> list[str]:
    """Return the command line that starts this program again."""
    program = sys.argv[0]
    if program.endswith((".pyz", ".py")):
        return [sys.executable, str(fixed_file(Path(program).absolute()))]
    installed = shutil.which(program)
    return (
        [str(Path(installed).absolute())]
        if installed
        else [sys.executable, "-m", "svcserver.launcher.main"]
    )


def run_quietly(arguments: Sequence[str]) -> str:
    """Run a desktop helper program and return its output, or "" if the program is not installed."""
    program = shutil.which(arguments[0])
    if program is None:
        return ""
    ran = subprocess.run(
        [program, *arguments[1:]], check=False, capture_output=True, timeout=TIMEOUT_S
    )
    return ran.stdout.decode(errors="replace")


def user_registry() -> UserRegistry:
    """Return the registry of this user; raises ImportError if the system is not Windows."""
    return UserRegistry(importlib.import_module("winreg"))


def scheme_of(platform: str, places: Places, command: Sequence[str] = ()) -> Scheme:
    """Return the registration for ``svc:`` links on this system; a link runs ``command``."""
    if platform == "win32":
        return WindowsScheme(user_registry(), command or own_command())
    if places.programs is not None and places.choices is not None:
        choices = Path(places.choices)
        return LinuxScheme(Path(places.programs), own_command(), run_quietly, choices)
    return NoScheme()
