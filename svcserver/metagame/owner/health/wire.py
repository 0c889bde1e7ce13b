"""The health report as the owner reads it. Spec: 2 §4 Management API."""

from __future__ import annotations

from typing import TypedDict

from svcserver.metagame.owner.health.rules import LoopFigures, RequestFigures


class BansReply(TypedDict):
    """There are no bans to count."""

    supported: bool
    count: int | None


class BackendHealthReply(TypedDict):
    """The whole reply."""

    uptimeSeconds: int
    memoryMB: dict[str, float | None]
    requests: RequestFigures
    eventLoop: LoopFigures | None
    bans: BansReply
