"""The data of the dashboard's live pages; ``owner/features.py`` connects the sources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from svcserver.kernel import json
from svcserver.kernel.recent import RECENT, Follower
from svcserver.metagame.owner.dashboard import wire
from svcserver.metagame.owner.dashboard.acts import DashboardActs
from svcserver.metagame.owner.dashboard.state import DashboardState
from svcserver.metagame.owner.gameservers import GameServerPages
from svcserver.web.eventstream import EVERY_S, Look, SharedLook

FLEET_S = 2.0  # between two readings of the game servers


@frozen
class LivePages:
    """The data of the dashboard's live pages; ``figures`` is None if health is not measured.

    ``mark(page, account)`` returns a function, or None if the page has no list. The function reads
    a value that changes whenever the list may have changed (see ``owner/marks.py``).
    """

    state: DashboardState
    overview: Callable[[], Awaitable[Any]]
    acts: DashboardActs
    figures: Callable[[], Any] | None
    mark: Callable[[str, str], Callable[[], Awaitable[Any]] | None]
    game_servers: GameServerPages
    started_at: float  # epoch seconds
    wall_clock: Callable[[], float]
    folder: Path = field(factory=Path.cwd)  # the stack's working directory, with its files
    shared: Mapping[str, SharedLook] = field(init=False)  # one reader for all streams of a page

    @shared.default
    def _shared(self) -> Mapping[str, SharedLook]:
        looks = {
            "overview": (self.overview, EVERY_S),
            "chat": (self._chat, EVERY_S),
            "servers": (self.game_servers.fleet, FLEET_S),
        }
        return {
            # a little less than ``every_s``, because a stream may look slightly early
            page: SharedLook(_encoded(read), every_s - EVERY_S / 10, self.wall_clock)
            for page, (read, every_s) in looks.items()
        }

    def reader_for_page(self, page: str, who: str = "", cursor: str = "") -> Look | None:
        """Return a function that reads the next update of a page, or None if the page is not live.

        On the page ``account``, ``who`` is the account. On the page ``console``, ``who`` is a game
        server, and the output after ``cursor`` is shown.
        """
        if page in self.shared:
            self.shared[page].forget()
            return self.shared[page]
        pages: dict[str, Callable[[], Callable[[], Awaitable[Any]]]] = {
            "beat": lambda: _nothing,  # only shows that the server is up
            "health": self._health_from_start if self.figures is not None else lambda: _unwatched,
            "log": self._log_from_start,
            "console": lambda: self.game_servers.console(who, cursor),
        }
        begin = pages.get(page)
        reader = self.mark(page, who) if begin is None else begin()
        return None if reader is None else _encoded(reader)

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
            figures = None if self.figures is None else self.figures()
            return {**wire.show_health(samples, self.wall_clock()), "lastMinute": figures}

        return look

    def _log_from_start(self) -> Callable[[], Awaitable[Any]]:
        every = Follower(self.folder / RECENT, self.started_at)
        last, part = -1, 0

        async def look() -> Any:
            nonlocal last, part
            lines = every.new()
            alone = lines is None
            if lines is None:  # no stack collects the services' logs: use this process's lines
                own = self.state.log
                lines = [f"[metagame] {line}" for line in own.after(max(0, last))]
                fresh, last = last < 0, own.count
            else:
                fresh, last = last < 0, 0
            part += 1  # makes each update differ, because a stream skips equal updates
            update = {"fresh": fresh, "lines": lines, "alone": alone, "part": part}
            return update if lines or fresh else None

        return look


def _encoded(read: Callable[[], Awaitable[Any]]) -> Look:
    async def look() -> bytes | None:
        update = await read()
        return None if update is None else json.dump(update)

    return look


async def _nothing() -> Any:
    return None


async def _unwatched() -> Any:
    return {"off": True}
