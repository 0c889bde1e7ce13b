"""The programs that run a Windows game on other systems: Proton from Steam, or Wine."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import which

from attrs import frozen

from svcserver.kernel.game_paths import OWN_FOLDER
from svcserver.launcher.command import BadCommand, split

NONE = "none"  # the player's setting for no runner
MOST = 200  # Protons looked at per folder
_STEAMS = (".steam/root", ".steam/steam", ".local/share/Steam")
_INSIDE = ("steamapps/common", "compatibilitytools.d")


@frozen
class Runner:
    """A program that runs Windows programs on this system, such as Wine."""

    name: str  # shown to the player
    command: str  # quoted, as in the settings
    steam: str = ""  # the folder of a Proton's Steam

    def environ(self, folder: Path) -> Mapping[str, str]:
        """Return the environment variables that the runner needs for the game in ``folder``."""
        if not self.steam:
            return {}
        return {
            "STEAM_COMPAT_CLIENT_INSTALL_PATH": self.steam,
            "STEAM_COMPAT_DATA_PATH": str(_data(folder)),
        }

    def prepare(self, folder: Path) -> None:
        """Create the folder for the game's Windows drive, which Proton expects to exist."""
        if self.steam:
            _data(folder).mkdir(parents=True, exist_ok=True)


def _data(folder: Path) -> Path:
    return folder / OWN_FOLDER / "proton"


def find(platform: str, environ: Mapping[str, str], home: Path) -> Runner | None:
    """Return the newest Proton, else Wine, else None; on Windows, always return None."""
    if platform == "win32":
        return None
    protons = sorted(_protons(home), key=lambda proton: _age(proton[1].parent.name))
    if protons:
        steam, program = protons[-1]
        return Runner(program.parent.name, shlex.join([str(program), "run"]), str(steam))
    wine = which("wine", path=environ.get("PATH"))
    return Runner("Wine", shlex.quote(wine)) if wine else None


def _protons(home: Path) -> Iterator[tuple[Path, Path]]:
    """Yield (Steam folder, Proton) for each Proton; unreadable folders are skipped."""
    for steam in (home / entry for entry in _STEAMS):
        for inside in _INSIDE:
            try:
                names = sorted(entry.name for entry in (steam / inside).iterdir())
            except OSError:
                continue
            for name in [entry for entry in names if "proton" in entry.lower()][:MOST]:
                program = steam / inside / name / "proton"
                if program.is_file():
                    yield steam, program


def _age(name: str) -> tuple[list[int], str]:
    """Return a sort key for version names, so that 10.0 comes after 9.0."""
    return [int(digits[:9]) for digits in re.findall(r"\d+", name)], name


def chosen(setting: str, command: str, program: str, installed: Runner | None) -> Runner | None:
    """Return the runner for ``command``, or None if it needs no runner.

    A runner that the player has set is always used. Without such a setting, a command that starts
    an .exe file gets the installed runner. ``program`` replaces ``{program}`` in ``command``.
    """
    if setting.strip().lower() == NONE:
        return None
    if setting:
        return Runner(setting, setting)
    try:
        first = split(command)[0].replace("{program}", program)
    except BadCommand:
        return None
    return installed if first.lower().endswith(".exe") else None
