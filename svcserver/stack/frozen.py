"""Ends a component whose process lives and answers nothing, so that the stack starts it anew."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.stack.children import Children
from svcserver.stack.doors import Doors

log = Logger()


@define(eq=False)
class Frozen:
    """Knocks at every component; ``ready`` names those that said so and answer."""

    reactor: Any
    children: Children
    doors: Doors
    frozen_s: float  # so long it has answered nothing: several knocks
    _since: dict[str, float] = field(factory=dict, init=False)

    def ready(self) -> set[str]:
        """The components that serve."""
        known = {one.name for one in self.doors.components}
        return {one for one in self.children.ready if one in self.doors.open or one not in known}

    def look(self) -> Deferred[None]:
        """Knock at all of them, and end who has been silent for too long."""
        return self.doors.look().addCallback(self._looked)

    def _looked(self, _: None) -> None:
        now, serving = self.reactor.seconds(), self.ready()
        silent = self.children.ready - serving
        self._since = {one: self._since.get(one, now) for one in silent}
        for name, since in sorted(self._since.items()):
            if now - since >= self.frozen_s:
                log.error(
                    "{name} lives, but has answered nothing for {silent:.0f} s: it is killed",
                    name=name,
                    silent=now - since,
                )
                del self._since[name]
                self.children.kill(name)
