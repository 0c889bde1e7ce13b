"""The reply shape of the health route. Spec: 2 §4 Management API."""

from __future__ import annotations

from typing import TypedDict

from svcserver.metagame.owner.health.rules import LoopFigures, RequestFigures


class BansReply(TypedDict):
    """Bans, which are not supported."""

    supported: bool
    count: int | None


class BackendHealthReply(TypedDict):
    """The health report."""

    uptimeSeconds: int
    memoryMB: dict[str, float | None]
    requests: RequestFigures
    eventLoop: LoopFigures | None
    bans: BansReply
