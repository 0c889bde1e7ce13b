"""The part that the transactions of both boards share: writes, ids and news."""

from __future__ import annotations

from typing import Any, TypeVar

from svcserver.board.board import Key
from svcserver.board.kinds import Kind
from svcserver.kernel.ids import new_id

T = TypeVar("T")


class OpenTransaction:
    """The half of a ``BoardTransaction`` that needs no entries.

    ``ids``: those drawn by earlier runs.
    """

    __slots__ = ("_drawn", "_ids", "news", "now", "written")

    def __init__(self, now: float, ids: list[str]) -> None:
        self.now = now
        self.written: dict[Key, Any] = {}  # None where dropped
        self.news: list[object] = []
        self._ids, self._drawn = ids, 0

    def new_id(self) -> str:
        if self._drawn == len(self._ids):
            self._ids.append(new_id())
        self._drawn += 1
        return self._ids[self._drawn - 1]

    def put(self, kind: Kind[T], key: str, value: T) -> None:
        self.written[kind, key] = value

    def drop(self, kind: Kind[Any], key: str) -> None:
        self.written[kind, key] = None

    def publish(self, news: object) -> None:
        self.news.append(news)

    def _ours(self, kind: Kind[Any]) -> dict[str, Any]:
        """What this act has written of a kind."""
        return {key: value for (one, key), value in self.written.items() if one is kind}
