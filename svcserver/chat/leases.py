"""The leases of the chat processes.

A process without a heartbeat for ``LEASE_S`` loses its lease. The first process that notices this
publishes an event. So all processes remove the silent process at the same position in the order of
events. If the silent process is still alive, it ends its sessions and continues under a new name.
"""

from collections.abc import Callable

from attrs import define, field
from cachetools import FIFOCache

from svcserver.chat.events import Alive, Expired
from svcserver.kernel.buggify import buggify
from svcserver.kernel.ids import new_id

ALIVE_S = 3.0  # between two heartbeats
LEASE_S = 12.0  # after the last heartbeat
MOST_EXPIRED = 1_000  # names that are remembered


@define(eq=False)
class Leases:
    """The leases of all chat processes."""

    seconds: Callable[[], float]
    publish: Callable[[object], None]
    on_expiry: Callable[[str], None]
    on_own_expiry: Callable[[], None]
    name: str = field(factory=new_id)
    _seen_at: dict[str, float] = field(factory=dict, init=False)
    _expired: FIFOCache[str, None] = field(factory=lambda: FIFOCache(MOST_EXPIRED), init=False)

    def renew(self, worker: str) -> bool:
        """Renew the lease of a process; returns False if the lease has ended."""
        if worker not in self._expired:
            self._seen_at[worker] = self.seconds()
        return worker not in self._expired

    def check(self) -> None:
        """End the leases of processes without a heartbeat."""
        now, ours = self.seconds(), self._seen_at.get(self.name)
        if ours is None or now - ours > 2 * ALIVE_S:
            return  # this process receives nothing
        for worker, at in list(self._seen_at.items()):
            if now - at > LEASE_S or buggify("chat: a lease ends while its holder lives"):
                self.publish(Expired(worker))

    def on_alive(self, news: Alive) -> None:
        now, before = self.seconds(), self._seen_at.get(news.worker)
        if not self.renew(news.worker):
            # that process does not know that its lease has ended
            self.publish(Expired(news.worker))
        elif news.worker == self.name and (before is None or now - before > 2 * ALIVE_S):
            self._seen_at.update(
                dict.fromkeys(self._seen_at, now)
            )  # this process did not receive the others' heartbeats either

    def on_expired(self, news: Expired) -> None:
        self._expired[news.worker] = None
        is_known = self._seen_at.pop(news.worker, None) is not None
        if news.worker == self.name:
            self.on_own_expiry()
            self.name = new_id()
        elif is_known:
            self.on_expiry(news.worker)
