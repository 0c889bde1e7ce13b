"""Where the launcher keeps things, on each system. Pure: platform and environment are passed in."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

from attrs import frozen

NAME = "svc-launcher"


@frozen
class Places:
    """The launcher's folders, as text in the system's own spelling."""

    state: PurePath  # hosts, settings and, without a key store, keys
    games: PurePath  # a folder for each host's game files
    programs: PurePath | None  # where Linux looks for programs' desktop files
    choices: PurePath | None = None  # and for which of them the user has chosen


def places_of(platform: str, environ: Mapping[str, str], home: str) -> Places:
    """The folders on ``platform`` (as in ``sys.platform``)."""
    if platform == "win32":
        root = PureWindowsPath(home)
        own = PureWindowsPath(environ.get("LOCALAPPDATA") or root / "AppData" / "Local") / NAME
        return Places(own / "state", own / "games", None)
    if platform == "darwin":
        support = PurePosixPath(home) / "Library" / "Application Support" / NAME
        return Places(support / "state", support / "games", None)
    data = _absolute(environ.get("XDG_DATA_HOME", "")) or PurePosixPath(home, ".local/share")
    state = _absolute(environ.get("XDG_STATE_HOME", "")) or PurePosixPath(home, ".local/state")
    chosen = _absolute(environ.get("XDG_CONFIG_HOME", "")) or PurePosixPath(home, ".config")
    programs, choices = data / "applications", chosen / "mimeapps.list"
    return Places(state / NAME, data / NAME / "games", programs, choices)


def _absolute(text: str) -> PurePosixPath | None:
    """The standard says that a relative path there counts as none."""
    path = PurePosixPath(text)
    return path if path.is_absolute() else None


_DOWNLOADS = re.compile(r'^XDG_DOWNLOAD_DIR="(\$HOME/|/)((?:[^"\\]|\\.)*)"', re.MULTILINE)


def downloads_of(platform: str, home: str, user_dirs: str) -> PurePath:
    """Where a player looks for what a program has written for them.

    ``user_dirs``: what stands in ``user-dirs.dirs``, in which Linux desktops keep the folder's
    name, since that is in the player's language; empty where there is no such file.
    """
    if platform == "win32":
        return PureWindowsPath(home) / "Downloads"
    found = _DOWNLOADS.search(user_dirs)
    if found is None:
        return PurePosixPath(home) / "Downloads"
    rest = re.sub(r"\\(.)", r"\1", found[2])
    return PurePosixPath("/" if found[1] == "/" else home) / rest


def downloads_here(environ: Mapping[str, str], home: Path) -> Path:
    """That folder on this machine; the player's home folder where there is none."""
    chosen = _absolute(environ.get("XDG_CONFIG_HOME", "")) or home / ".config"
    try:
        text = Path(chosen, "user-dirs.dirs").read_text("utf-8", "replace")
    except OSError:
        text = ""
    found = Path(downloads_of(sys.platform, str(home), text))
    return found if found.is_dir() else home


def places_here(environ: Mapping[str, str]) -> Places:
    """The folders on this machine; ``SVC_LAUNCHER_HOME`` puts all of them below one folder."""
    if own := environ.get("SVC_LAUNCHER_HOME", ""):
        root = Path(own).absolute()
        choices = places_of(sys.platform, environ, str(Path.home())).choices
        return Places(root / "state", root / "games", root / "applications", choices)
    return places_of(sys.platform, environ, str(Path.home()))
