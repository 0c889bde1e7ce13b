"""The launcher's entries in the Start menu and in Windows' list of installed programs."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from attrs import define

from svcserver.launcher import windows
from svcserver.launcher.locked_files import do_all, unlink

PROGRAMS = r"Software\Microsoft\Windows\CurrentVersion\Uninstall\svc-launcher"


class Registry(Protocol):
    """The methods by which this module reads and changes the Windows registry."""

    def set(self, key: str, name: str, value: str) -> None: ...
    def get(self, key: str) -> str | None: ...
    def delete(self, key: str) -> None: ...


@define
class StartMenu:
    """One program's Start menu and uninstall entries; adding them needs no administrator rights."""

    menu: Path
    registry: Registry
    make_shortcut: Callable[[Path, Path, str], None] = windows.make_shortcut

    @property
    def shortcut(self) -> Path:
        """The file of the Start menu's entry."""
        return self.menu / f"{windows.TITLE}.lnk"

    def add(self, program: Path, version: str) -> None:
        """Add the Start menu entry and the uninstall entry of ``program``; raises OSError."""
        line = f'"{program}" remove'
        if not self.shortcut.is_file() or self.registry.get(PROGRAMS) != line:
            self.menu.mkdir(parents=True, exist_ok=True)
            self.make_shortcut(self.shortcut, program, "Join a host and play")
        for name, value in (
            ("DisplayName", windows.TITLE),
            ("DisplayVersion", version),
            ("DisplayIcon", str(program)),
            ("InstallLocation", str(program.parent)),
            ("UninstallString", line),
            ("", line),  # the default value shows that the entries are complete
        ):
            self.registry.set(PROGRAMS, name, value)

    def remove(self) -> None:
        """Remove the Start menu entry and the uninstall entry; raises OSError."""
        do_all(lambda: unlink(self.shortcut), lambda: self.registry.delete(PROGRAMS))
