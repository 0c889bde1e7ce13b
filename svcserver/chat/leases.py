"""Which of the chat's processes live, and what happens to one that was taken for gone.

A process whose sign of life nobody has heard for ``LEASE_S`` has lost its lease: one that notices
tells all, so that every process lets go of it at the same place in the order of news. If it
lives after all, it ends its sessions and goes on under a new name, its epoch.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from cachetools import FIFOCache

from svcserver.chat.events import Alive, Expired
from svcserver.kernel.buggify import buggify
from svcserver.kernel.ids import new_id

ALIVE_S = 3.0  # between two signs of life
LEASE_S = 12.0  # so long after the last one a process is gone
MOST_EXPIRED = 1_000  # names that are remembered


@define(eq=False)
class Leases:
    """``tell`` sends news; ``gone`` is called with a process, ``lost`` when it is this one."""

    seconds: Callable[[], float]
    tell: Callable[[object], None]
    gone: Callable[[str], None]
    lost: Callable[[], None]
    name: str = field(factory=new_id)
    _heard: dict[str, float] = field(factory=dict, init=False)
    _expired: FIFOCache[str, None] = field(factory=lambda: FIFOCache(MOST_EXPIRED), init=False)

    def hear(self, worker: str) -> bool:
        """Note that a process lives; False where its lease has ended."""
        if worker not in self._expired:
            self._heard[worker] = self.seconds()
        return worker not in self._expired

    def look(self) -> None:
        """Tell of those of whom nothing was heard."""
        now, ours = self.seconds(), self._heard.get(self.name)
        if ours is None or now - ours > 2 * ALIVE_S:
            return  # it is we who hear nothing
        for worker, at in list(self._heard.items()):
            if now - at > LEASE_S or buggify("chat: a lease ends while its holder lives"):
                self.tell(Expired(worker))

    def on_alive(self, news: Alive) -> None:
        now, before = self.seconds(), self._heard.get(news.worker)
        if not self.hear(news.worker):
            self.tell(Expired(news.worker))  # it has not heard so
        elif news.worker == self.name and (before is None or now - before > 2 * ALIVE_S):
            self._heard.update(dict.fromkeys(self._heard, now))  # nor could we hear the others

    def on_expired(self, news: Expired) -> None:
        self._expired[news.worker] = None
        heard = self._heard.pop(news.worker, None) is not None
        if news.worker == self.name:
            self.lost()
            self.name = new_id()
        elif heard:
            self.gone(news.worker)
