"""A forecast of when the host's disks will be full, based on their growth so far.

The database grows by its daily average since the first account was created. Logs grow by their own
daily average until they rotate. One backup is added each night; once the retention limit is
reached, the oldest backup is dropped each night. The size of a new backup follows from the forecast
size of the database.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attrs import define, field, frozen
from sqlalchemy import Connection, func, select, text

from svcserver.allowlist.persistence import MAX_AUDIT
from svcserver.ctl.backup.command import known, wanted_of
from svcserver.ctl.database import file_of, transact, url_of
from svcserver.ctl.host import Host
from svcserver.ctl.output import Out
from svcserver.ctl.stack_process import LOG, MOST_LOG
from svcserver.deploy.process import MAX_OUTPUT
from svcserver.deploy.service import OUTPUT
from svcserver.kernel.recent import MOST as MOST_RECENT
from svcserver.kernel.recent import RECENT
from svcserver.metagame.accounts.store import ACCOUNTS
from svcserver.metagame.owner.bodylog import MOST as MOST_BODIES
from svcserver.stack.alerts.disks import Disk, disk_of

RESERVE = 1 << 30  # bytes that must stay free; with fewer, an alert is sent
DAY_S = 86_400.0
HORIZON_DAYS = 30
WIDTH = 40  # width of a chart in characters
FARTHEST_DAYS = 3_650  # nobody uses a disk for longer
_LOOPBACK = ("", "localhost", "127.0.0.1", "::1")


@frozen
class Filling:
    """The size in bytes of one kind of data, and its growth.

    The data grows by ``a_day`` bytes a day. It also grows by ``soon_a_day`` bytes a day, until this
    additional growth has reached ``soon`` bytes.
    """

    name: str
    has: float
    a_day: float = 0.0
    soon_a_day: float = 0.0
    soon: float = 0.0

    def gains(self, days: float) -> float:
        """Return by how many bytes the data will grow in the next ``days`` days."""
        return self.a_day * days + min(self.soon_a_day * days, max(0.0, self.soon))


@define
class Filled:
    """A disk, and the kinds of host data on it."""

    place: Path
    disk: Disk
    fillings: list[Filling] = field(factory=list)

    @property
    def usable(self) -> float:
        """Return the number of bytes that can still be written."""
        return self.disk.free - RESERVE

    def gains(self, days: float) -> float:
        """Return by how many bytes all data on the disk will grow in the next ``days`` days."""
        return sum(filling.gains(days) for filling in self.fillings)

    @property
    def full_in(self) -> int | None:
        """Return the number of days until the disk is full; None for more than ten years."""
        if self.gains(FARTHEST_DAYS) <= self.usable:
            return None
        low, high = 0, FARTHEST_DAYS
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.gains(middle) > self.usable else (middle + 1, high)
        return low


def disks(host: Host, data: Path, now: float | None = None) -> tuple[list[Filled], float]:
    """Return the disks on which the host's data grow, and the host's age in days.

    The disk of ``data`` comes first.
    """
    moment = time.time() if now is None else now
    began, size = transact(host, _of_database)
    days = max(1.0, (moment - began) / DAY_S)
    by_device = {(first := disk_of(data)).number: Filled(data, first)}
    for place, filling in _all(host, data, size, days):
        disk = disk_of(place)
        by_device.setdefault(disk.number, Filled(place, disk)).fillings.append(filling)
    return list(by_device.values()), days


def _of_database(tx: Connection) -> tuple[float, int]:
    """Return the first account's creation time, and the database's size (0 unless PostgreSQL)."""
    began = tx.execute(select(func.min(ACCOUNTS.c.created_at))).scalar()
    size = 0
    if tx.dialect.name == "postgresql":
        size = tx.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
    return float(began if began is not None else time.time()), int(size)


def _all(host: Host, data: Path, size: int, days: float) -> Iterator[tuple[Path, Filling]]:
    url = url_of(host)
    file = file_of(url)
    if file is not None:
        has = bytes_of([file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))])
        yield file.parent, Filling("database", has, a_day=has / days)
    else:
        has = size
        if (url.host or "") in _LOOPBACK:  # only the database server knows its own disk
            yield data, Filling("database", has, a_day=has / days)
    yield from _logs(host, data, days)
    wanted = wanted_of(host)
    rule, backups = wanted.settings, known(wanted.data).kept
    if rule.at is None and not backups:
        return  # nightly backups are off (BACKUP_AT=off), and no backup exists
    made = backups[0].bytes if backups else has // 4  # an estimate of the compressed size
    most = rule.days + rule.weeks + rule.months
    grows = made / has * (has / days) * most if has else 0.0
    there = sum(backup.bytes for backup in backups)
    yield wanted.target, Filling("backups", there, grows, made, made * (most - len(backups)))


def _logs(host: Host, data: Path, days: float) -> Iterator[tuple[Path, Filling]]:
    ports = _ports(host)
    where = (
        (host.folder or data, LOG, 2 * MOST_LOG),
        (data, RECENT, 2 * MOST_RECENT),
        (data, "allowlist-audit.log", 2 * MAX_AUDIT),
        (data, "bodies.log", 2 * MOST_BODIES),
        (data / OUTPUT, "", 2 * MAX_OUTPUT * ports),
    )
    for folder, name, most in where:
        has = bytes_of(folder.glob(f"{name}*"))
        if has:
            yield folder, Filling("logs", has, soon_a_day=has / days, soon=most - has)


def _ports(host: Host) -> int:
    lines = host.variables("deploy")
    first, last = (int(lines.get(f"PORT_RANGE_{end}") or 0) for end in ("BEGIN", "END"))
    return max(1, last - first + 1)


def bytes_of(paths: Iterable[Path]) -> int:
    """Return the total size of these files; a missing file has size 0."""
    total = 0
    for path in paths:
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def merged(fillings: Sequence[Filling]) -> list[Filling]:
    """Merge entries with the same name by adding their numbers; return the largest first."""
    names = dict.fromkeys(filling.name for filling in fillings)
    result = []
    for name in names:
        same = [filling for filling in fillings if filling.name == name]
        result.append(
            Filling(
                name,
                sum(filling.has for filling in same),
                sum(filling.a_day for filling in same),
                sum(filling.soon_a_day for filling in same),
                sum(filling.soon for filling in same),
            )
        )
    return sorted(result, key=lambda filling: -(filling.has + filling.gains(HORIZON_DAYS)))


def as_data(filled: Sequence[Filled], days: float) -> dict[str, object]:
    """Return the disks in the form that ``--json`` prints."""
    disks = [
        {
            "place": str(disk.place),
            "usable_mb": _mb(disk.usable),
            "full_in_days": disk.full_in,
            "fills": [
                {
                    "name": row.name,
                    "mb": _mb(row.has),
                    f"mb_in_{HORIZON_DAYS}_days": _mb(row.has + row.gains(HORIZON_DAYS)),
                }
                for row in merged(disk.fillings)
            ],
        }
        for disk in filled
    ]
    return {"disks": disks, "days_old": round(days, 1)}


def print_growth(out: Out, filled: Sequence[Filled], days: float) -> None:
    """Print when each disk will be full, and a chart of its contents."""
    so_far = f"of {days:.0f} days" if days > 1 else "of one day, which is too short to be exact"
    for disk in filled:
        when = "not full in ten years" if disk.full_in is None else f"full in {disk.full_in} days"
        out.text("", f"disk of {disk.place}: {when}, estimated from the growth {so_far}")
        rows = [(row, row.has + row.gains(HORIZON_DAYS)) for row in merged(disk.fillings)]
        longest = max((then for _, then in rows), default=0.0) or 1.0
        cells = [
            [row.name, f"{_mb(row.has)}", f"{_mb(then)}", "█" * math.ceil(WIDTH * then / longest)]
            for row, then in rows
        ]
        cells.append(["may be used", f"{_mb(disk.usable)}", "", ""])
        out.table(["what", "MB now", f"in {HORIZON_DAYS} days", ""], cells)


def _mb(count: float) -> float:
    return round(count / (1 << 20), 1)
