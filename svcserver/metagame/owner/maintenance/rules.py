"""The data classes of maintenance mode: a request for it, and its current state."""

from attrs import frozen

from svcserver.metagame.play.drain import Drain, Then, Until

ACTS = {  # operations on a game server or machine, and their names in the audit log
    "start": "start game server",
    "stop": "stop game server",
    "restart": "restart game server",
    "drain": "fleet drain",
    "undrain": "fleet drain",
}
WORLDS = ("city", "dojo")  # kinds of game servers that never end


@frozen
class DrainOrder:
    """A request for maintenance mode."""

    then: Then = Then.NOTHING
    until: Until = Until.NO_HUNT
    reason: str = ""


@frozen
class MaintenanceStatus:
    """The state of maintenance mode; ``hunts`` is None if the deploy server does not answer."""

    drain: Drain | None
    hunts: int | None
    players: int
    stack: bool = True  # an svc-stack runs this server and can stop or restart it

    @property
    def is_empty(self) -> bool:
        """Return whether no hunt runs and, with ``Until.NOBODY``, no player is online."""
        nobody = self.players == 0
        wants_nobody = self.drain is not None and self.drain.until is Until.NOBODY
        return self.hunts == 0 and (nobody or not wants_nobody)
