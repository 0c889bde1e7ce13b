"""The rules that decide which saves are kept. Spec: 2 §4 SaveHistory, rollback."""

from collections.abc import Iterable, Sequence
from itertools import islice

from attrs import frozen

from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.times import DAY_MS, HOUR_MS
from svcserver.metagame.once import KEPT_S

MOST_REPEATABLE = 64  # saves of a character; the gateway repeats a request within seconds


@frozen
class Retention:
    """The settings of the save history; if ``keep`` is None, all saves are kept."""

    keep: int | None = None
    hourly: int = 48
    daily: int = 30


@frozen
class Save:
    """One row of a history; ``saved_at`` is in epoch milliseconds.

    ``request_id`` identifies the request that made the save, if the request can be repeated.
    """

    id: int
    saved_at: int
    request_id: str | None = None


@frozen
class SaveHistory:
    """The list of a character's saves, newest first, without the saved data.

    For each save, the list has the version, the time (epoch milliseconds) and the reason. Saves
    of the character also have a size; saves of the character's loadouts have no size.
    """

    character_id: CharacterId
    account_id: AccountId
    name: str
    update_version: int
    saves: Sequence[tuple[int, int, str, int]]
    loadout_saves: Sequence[tuple[int, int, str]]


def thinned(saves: Iterable[Save], retention: Retention, now: float) -> list[int]:
    """Return the ids of the saves to delete; ``now`` is in epoch seconds.

    These saves are kept:

    - the newest ``keep`` saves
    - the last save of each hour, for the last ``hourly`` hours including the current hour
    - the last save of each UTC day, for the last ``daily`` days including today
    - the newest ``MOST_REPEATABLE`` saves with a request id, if younger than ``KEPT_S`` seconds
    """
    if retention.keep is None:
        return []
    newest_first = sorted(saves, key=lambda save: save.id, reverse=True)
    at_ms = int(now * 1000)
    spared = {save.id for save in newest_first[: retention.keep]}
    spared |= _last_of_each(newest_first, HOUR_MS, at_ms // HOUR_MS - retention.hourly)
    spared |= _last_of_each(newest_first, DAY_MS, at_ms // DAY_MS - retention.daily)
    repeatable = (
        save.id
        for save in newest_first
        if save.request_id is not None and at_ms - save.saved_at < KEPT_S * 1000
    )
    spared.update(islice(repeatable, MOST_REPEATABLE))
    return [save.id for save in newest_first if save.id not in spared]


def _last_of_each(newest_first: list[Save], period_ms: int, after: int) -> set[int]:
    last: dict[int, int] = {}
    for save in newest_first:
        period = save.saved_at // period_ms
        if period > after:
            last.setdefault(period, save.id)
    return set(last.values())
