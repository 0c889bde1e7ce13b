"""The launcher's folders on each system."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

from attrs import frozen

from svcserver.launcher import windows

NAME = "svc-launcher"


@frozen
class Places:
    """The launcher's folders, as Windows paths or POSIX paths, depending on the system."""

    state: PurePath  # hosts, settings and, without a key store, keys
    games: PurePath  # a folder for each host's game files
    programs: PurePath | None  # of desktop files, on Linux
    choices: PurePath | None = None  # the file with the user's default programs, on Linux
    program: PurePath | None = None  # the launcher's own folder, on Windows and Linux
    menu: PurePath | None = None  # the user's part of the Start menu, on Windows


def places_of(platform: str, environ: Mapping[str, str], home: str) -> Places:
    """Return the launcher's folders on ``platform``, a value of ``sys.platform``."""
    if platform == "win32":
        root = PureWindowsPath(home)
        own = PureWindowsPath(environ.get("LOCALAPPDATA") or root / "AppData" / "Local") / NAME
        roaming = PureWindowsPath(environ.get("APPDATA") or root / "AppData" / "Roaming")
        menu = roaming / "Microsoft" / "Windows" / "Start Menu" / "Programs"
        return Places(own / "state", own / "games", None, None, own / "program", menu)
    if platform == "darwin":
        support = PurePosixPath(home) / "Library" / "Application Support" / NAME
        return Places(support / "state", support / "games", None)
    data = _absolute(environ.get("XDG_DATA_HOME", "")) or PurePosixPath(home, ".local/share")
    state = _absolute(environ.get("XDG_STATE_HOME", "")) or PurePosixPath(home, ".local/state")
    chosen = _absolute(environ.get("XDG_CONFIG_HOME", "")) or PurePosixPath(home, ".config")
    programs, choices = data / "applications", chosen / "mimeapps.list"
    return Places(state / NAME, data / NAME / "games", programs, choices, data / NAME)


def _absolute(text: str) -> PurePosixPath | None:
    """Return the path, or None if it is relative; the XDG standard ignores relative paths."""
    path = PurePosixPath(text)
    return path if path.is_absolute() else None


_DOWNLOADS = re.compile(r'^XDG_DOWNLOAD_DIR="(\$HOME/|/)((?:[^"\\]|\\.)*)"', re.MULTILINE)


def downloads_of(home: str, user_dirs: str) -> PurePosixPath:
    """Return the user's downloads folder on a system other than Windows.

    ``user_dirs`` is the text of ``user-dirs.dirs``, where Linux desktops save the folder's
    localised name; the text is empty if there is no such file.
    """
    match = _DOWNLOADS.search(user_dirs)
    if match is None:
        return PurePosixPath(home) / "Downloads"
    rest = re.sub(r"\\(.)", r"\1", match[2])
    return PurePosixPath("/" if match[1] == "/" else home) / rest


def downloads_here(environ: Mapping[str, str], home: Path) -> Path:
    """Return this machine's downloads folder, or the home folder if there is none."""
    chosen = _absolute(environ.get("XDG_CONFIG_HOME", "")) or home / ".config"
    try:
        if sys.platform == "win32":
            return Path(windows.downloads_folder())
        text = Path(chosen, "user-dirs.dirs").read_text("utf-8", "replace")
    except OSError:
        text = ""
    downloads = Path(downloads_of(str(home), text))
    return downloads if downloads.is_dir() else home


def places_here(environ: Mapping[str, str]) -> Places:
    """Return the launcher's folders on this machine, or below ``SVC_LAUNCHER_HOME`` if set."""
    if own := environ.get("SVC_LAUNCHER_HOME", ""):
        root = Path(own).absolute()
        usual = places_of(sys.platform, environ, str(Path.home()))
        program = root / "program" if usual.program is not None else None
        programs, places = root / "applications", (root / "state", root / "games")
        return Places(*places, programs, usual.choices, program, usual.menu)
    return places_of(sys.platform, environ, str(Path.home()))
