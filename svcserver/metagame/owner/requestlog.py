"""The metagame's request log: marks what a game server sent, and misses what clients expect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from svcserver.kernel.headers import ACCOUNT_KEY, GAME_SERVER_KEY
from svcserver.kernel.system import epoch
from svcserver.metagame.access.staff_sessions import PAGE_HEADER, ticket_of
from svcserver.web.front import FinishedRequest
from svcserver.web.logs import LogLines
from svcserver.web.request import HttpRequest
from svcserver.web.requestlog import RequestLog


def request_log(
    lines: LogLines, on: bool, wall_clock: Callable[[], float] = epoch, **more: Any
) -> RequestLog:
    """An observer of the metagame's front door."""
    return RequestLog(
        lines,
        on,
        wall_clock,
        expected=("/progression",),
        mark=_by_game_server,
        who=_account,
        page=_page,
        proxy="gateway",
        **more,
    )


def _account(done: FinishedRequest) -> str:
    found: str | None = done.caller.account
    return found or ""


def _page(done: FinishedRequest) -> str:
    return page_of(done.request)


def page_of(request: HttpRequest) -> str:
    """The mark of the dashboard's session by which a proven caller asks; empty by a key."""
    word = request.header(PAGE_HEADER)
    if word is None or request.has_header(ACCOUNT_KEY):
        return ""
    ticket = ticket_of(request.header(b"cookie"), word)
    return "" if ticket is None else ticket.mark


_BY_GAME_SERVER, _BY_OTHERS = {"gs": 1}, {"gs": 0}


def _by_game_server(done: FinishedRequest) -> Mapping[str, int]:
    return _BY_GAME_SERVER if done.request.has_header(GAME_SERVER_KEY) else _BY_OTHERS
