"""The data of the dashboard's live pages; ``owner/features.py`` connects the sources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, field, frozen

from svcserver.kernel import backups, json, services_down
from svcserver.kernel.recent import RECENT, Follower
from svcserver.kernel.times import iso
from svcserver.metagame.owner.dashboard import wire
from svcserver.metagame.owner.dashboard.acts import DashboardActs
from svcserver.metagame.owner.dashboard.feed import Feed
from svcserver.metagame.owner.dashboard.state import DashboardState
from svcserver.web.eventstream import Look


@frozen
class LivePages:
    """The sources of the live pages; ``figures`` is None if health is not measured.

    ``mark`` returns a function that reads the change mark of a page's list, or None for a page
    without a list.
    """

    state: DashboardState
    feed: Feed
    acts: DashboardActs
    status: Callable[[], Awaitable[Mapping[str, Any]]]
    figures: Callable[[], Any] | None
    mark: Callable[[str, str], Callable[[], Awaitable[Any]] | None]
    started_at: float  # epoch seconds, like ``now``
    wall_clock: Callable[[], float]
    folder: Path = field(factory=Path.cwd)  # the stack's working directory, with its files

    def look(self, page: str, who: str = "") -> Look | None:
        """Return a function that reads a page's next update; None if the page is not live.

        ``who`` is the account shown on an account page.
        """
        pages: dict[str, Callable[[], Callable[[], Awaitable[Any]]]] = {
            "overview": lambda: self._overview,
            "chat": lambda: self._chat,
            "beat": lambda: _nothing,  # only shows that the server is up
            "health": self._health_from_start if self.figures is not None else lambda: _unwatched,
            "log": self._log_from_start,
        }
        begin = pages.get(page)
        reader = self.mark(page, who) if begin is None else begin()
        if reader is None:
            return None

        async def encoded(read: Callable[[], Awaitable[Any]] = reader) -> bytes | None:
            update = await read()
            return None if update is None else json.dump(update)

        return encoded

    async def _overview(self) -> Any:
        status = {**await self.status()}
        del status["uptimeSeconds"]  # it would change every second
        return {
            "status": status,
            "startedAt": iso(self.started_at),
            "health": None if self.figures is None else self.figures(),
            "backup": self._backup(),
            "down": [
                {"name": name, "since": iso(since)}
                for name, since in services_down.read(self.folder, self.wall_clock()).items()
            ],
            "feed": [{**asdict(line), "at": iso(line.at)} for line in await self.feed.newest()],
        }

    def _backup(self) -> Any:
        known, now = backups.read(self.folder), self.wall_clock()
        if known is None:  # neither a stack nor svc-watch has ever run here
            known = backups.Backups(since=self.started_at)
        newest = known.newest
        return {
            "madeAt": None if newest is None else iso(newest.made),
            "provenAt": None if known.proven is None else iso(known.proven),
            "wrong": known.wrong(now),
        }

    async def _chat(self) -> Any:
        figures = None if self.state.chat is None else self.state.chat()
        guilds = {} if figures is None else await self.acts.guild_names(figures.rooms)
        return wire.show_chat(figures, guilds)

    def _health_from_start(self) -> Callable[[], Awaitable[Any]]:
        newest = 0.0

        async def look() -> Any:
            nonlocal newest
            samples = self.state.health.after(newest)
            if not samples and newest:
                return None
            newest = samples[-1].at if samples else 0.0
            return wire.show_health(samples, self.wall_clock())

        return look

    def _log_from_start(self) -> Callable[[], Awaitable[Any]]:
        every = Follower(self.folder / RECENT, self.started_at)
        last = -1

        async def look() -> Any:
            nonlocal last
            lines = every.new()
            alone = lines is None
            if lines is None:  # no stack collects the services' logs: use our own lines
                own = self.state.log
                lines = [f"[metagame] {line}" for line in own.after(max(0, last))]
                fresh, last = last < 0, own.count
            else:
                fresh, last = last < 0, 0
            update = {"fresh": fresh, "lines": lines, "alone": alone}
            return update if lines or fresh else None

        return look


async def _nothing() -> Any:
    return None


async def _unwatched() -> Any:
    return {"off": True}
