"""A bound on the memory of answers that clients do not read, over all connections."""

from __future__ import annotations

from itertools import chain
from typing import Protocol

from attrs import define, field

from svcserver.kernel.counters import Counted, Counters

MAX_UNREAD = 64 * 1024 * 1024  # bytes of all connections together
FAIR = 256 * 1024  # bytes of a body or an answer that are kept before larger ones


class Reader(Protocol):
    """A connection that an answer waits for."""

    def cut(self) -> None: ...


@define
class UnreadAnswers:
    """Connections with an unread answer, the longest waiting first, which is cut beyond ``most``.

    An answer is written in pieces, and each that is read puts its connection last again, so that
    those who do not read at all are cut. Those with more than ``FAIR`` bytes are cut before all
    with less; the newest is never cut for itself.
    """

    most: int = MAX_UNREAD
    counters: Counters = field(factory=Counters)
    total: int = field(default=0, init=False)
    _large: dict[Reader, int] = field(factory=dict, init=False, repr=False)
    _small: dict[Reader, int] = field(factory=dict, init=False, repr=False)

    def begin(self, reader: Reader, size: int) -> None:
        """Count ``size`` bytes that wait until ``reader`` reads."""
        self.end(reader)
        (self._large if size > FAIR else self._small)[reader] = size
        self.total += size
        while self.total > self.most:
            longest = self._longest(reader)
            if longest is None:
                return
            self.end(longest)
            self.counters.add(Counted.EVICTED_CONNECTIONS, "unread_answer")
            longest.cut()

    def _longest(self, newest: Reader) -> Reader | None:
        others = (one for one in chain(self._large, self._small) if one is not newest)
        return next(others, None)

    def end(self, reader: Reader) -> None:
        """The connection has read its answer, or has ended."""
        self.total -= self._large.pop(reader, 0) + self._small.pop(reader, 0)
