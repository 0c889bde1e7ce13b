"""The metagame's request log: marks what a game server sent, and misses what clients expect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from svcserver.kernel.headers import GAME_SERVER_KEY
from svcserver.kernel.system import epoch
from svcserver.web.front import FinishedRequest
from svcserver.web.logs import LogLines
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
        proxy="gateway",
        **more,
    )


def _account(done: FinishedRequest) -> str:
    found: str | None = done.caller.account
    return found or ""


_BY_GAME_SERVER, _BY_OTHERS = {"gs": 1}, {"gs": 0}


def _by_game_server(done: FinishedRequest) -> Mapping[str, int]:
    return _BY_GAME_SERVER if done.request.has_header(GAME_SERVER_KEY) else _BY_OTHERS
