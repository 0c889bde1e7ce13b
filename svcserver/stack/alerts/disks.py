"""The disks that a host writes to: of each the free space, by what lies there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from attrs import frozen

from svcserver.kernel.settings import BadSetting, off_unless_1
from svcserver.stack.workers import read

LOW_SHARE, LOW_BYTES = 0.05, 1 << 30  # of the disk that are free
HOST = "the host's"
SQLITE = "sqlite:///"


@frozen
class Disk:
    """A disk by its number, and its room in bytes."""

    number: int
    free: int
    total: int

    @property
    def lacks(self) -> str | None:
        """How little is left, below 1 GiB or 5 %; None while it is enough."""
        if self.free >= LOW_BYTES and self.free >= LOW_SHARE * self.total:
            return None
        return f"{self.free >> 20} MB of {self.total >> 20} MB are free"


def disk_of(path: Path) -> Disk:
    """The disk of a path, or of the nearest folder above that is there; raises OSError."""
    there = next((one for one in (path, *path.parents) if one.exists()), path)
    room = shutil.disk_usage(there)
    return Disk(there.stat().st_dev, room.free, room.total)


def low_disks(
    config: Path, data: Path, look: Callable[[Path], Disk] = disk_of
) -> Iterator[tuple[str, str | None]]:
    """Of each place that is written whose it is, and what is wrong with its disk, or None.

    A disk with several places is told of once, as that of the first.
    """
    seen: set[int] = set()
    for subject, place in places(config, data):
        wrong = None
        try:
            disk = look(place)
        except OSError as why:
            wrong = f"{place} cannot be looked at: {why.strerror}."
        else:
            if disk.lacks is not None and disk.number not in seen:
                wrong = f"{disk.lacks} on the disk of {place}."
            seen.add(disk.number)
        yield subject, wrong


def places(config: Path, data: Path) -> Iterator[tuple[str, Path]]:
    """What the host writes, and where: by the env files in ``config``, beside its own folders."""
    metagame, content, allowlist, stack = (
        lines(config / f"{name}.env") for name in ("metagame", "content", "allowlist", "stack")
    )
    yield HOST, data
    yield "the settings'", config
    database = metagame.get("DATABASE_URL", "")
    if database.startswith(SQLITE):
        file = unquote(database.removeprefix(SQLITE).partition("?")[0])
        yield "the database's", (data / file).parent
    if game := content.get("CONTENT_GAME_DIR"):
        yield "the game files'", data / game
    if manifest := content.get("CONTENT_MANIFEST"):
        yield "the manifest's", (data / manifest).parent
    if off_unless_1(metagame.get("LOG_BODIES", "")):
        yield "the body log's", (data / (metagame.get("BODY_LOG_FILE") or "bodies.log")).parent
    if log := allowlist.get("ALLOWLIST_AUDIT_LOG"):
        yield "the allowlist's", (data / log).parent
    yield "the backups'", data / (stack.get("BACKUP_DIR") or "backups")


def lines(path: Path) -> Mapping[str, str]:
    """The lines of an env file; none where it cannot be read."""
    try:
        return read(path)
    except BadSetting:
        return {}
