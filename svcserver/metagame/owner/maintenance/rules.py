"""Values of maintenance mode: what is asked for, and how it stands."""

from __future__ import annotations

from attrs import frozen

from svcserver.metagame.play.drain import Drain, Then, Until

ACTS = ("start", "stop", "restart")  # on a game server
WORLDS = ("city", "dojo")  # kinds of game servers that never end


@frozen
class Order:
    """Maintenance mode as asked for."""

    then: Then = Then.NOTHING
    until: Until = Until.NO_HUNT
    reason: str = ""


@frozen
class Standing:
    """Maintenance mode, and who is still there; ``hunts`` None: the deploy server does not say."""

    drain: Drain | None
    hunts: int | None
    players: int
    stack: bool = True  # an svc-stack runs us, which can be stopped and restarted from here

    @property
    def is_empty(self) -> bool:
        """Whether what is waited for is so."""
        nobody = self.players == 0
        wants_nobody = self.drain is not None and self.drain.until is Until.NOBODY
        return self.hunts == 0 and (nobody or not wants_nobody)
