"""The disks that a host writes to, with their free space."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote

from attrs import frozen

from svcserver.kernel.settings import BadSetting, off_unless_1
from svcserver.stack.workers import read_env_file

LOW_SHARE, LOW_BYTES = 0.05, 1 << 30  # of a disk's free space
HOST = "the host's"
SQLITE = "sqlite:///"


@frozen
class Disk:
    """A disk, with its free and its total size in bytes."""

    number: int
    free: int
    total: int

    @property
    def shortage(self) -> str | None:
        """The free space as text if less than 1 GiB or 5 % is free, otherwise None."""
        if self.free >= LOW_BYTES and self.free >= LOW_SHARE * self.total:
            return None
        return f"{self.free >> 20} MB of {self.total >> 20} MB are free"


def disk_of(path: Path) -> Disk:
    """Return the disk that holds a path or its nearest existing parent, or raise OSError."""
    existing = next((part for part in (path, *path.parents) if part.exists()), path)
    usage = shutil.disk_usage(existing)
    return Disk(existing.stat().st_dev, usage.free, usage.total)


def low_disks(
    config: Path, data: Path, find_disk: Callable[[Path], Disk] = disk_of
) -> Iterator[tuple[str, str | None]]:
    """Yield a label and a fault (None: no fault) for each folder that the host writes to.

    A disk with several of these folders is reported once, for the first of them.
    """
    reported: set[int] = set()
    for owner, folder in written_folders(config, data):
        fault = None
        try:
            disk = find_disk(folder)
        except OSError as error:
            fault = f"The disk of {folder} cannot be checked: {error.strerror}."
        else:
            if disk.shortage is not None and disk.number not in reported:
                fault = f"{disk.shortage} on the disk of {folder}."
            reported.add(disk.number)
        yield owner, fault


def written_folders(config: Path, data: Path) -> Iterator[tuple[str, Path]]:
    """Read the env files; yield a label and the path of each folder that the host writes to."""
    metagame, content, allowlist, stack = (
        read_or_empty(config / f"{name}.env")
        for name in ("metagame", "content", "allowlist", "stack")
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


def read_or_empty(path: Path) -> Mapping[str, str]:
    """Return the variables of an env file, or none if the file cannot be read."""
    try:
        return read_env_file(path)
    except BadSetting:
        return {}
