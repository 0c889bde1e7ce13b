"""Maintenance mode: no new hunts begin; hunts that have begun continue.

The mode is stored on the board (the live state), where all workers see it, and in the database
(``owner/maintenance``), where it survives a crash.
"""

from enum import StrEnum

from attrs import frozen

from svcserver.board.board import BoardTransaction
from svcserver.board.kinds import Kind

ONLY = ""  # the key of the only entry


class Then(StrEnum):
    """The action that follows when the condition (``Until``) is met."""

    NOTHING = ""
    STOP = "stop"
    RESTART = "restart"
    STOPPING = "stopping"  # svc-stack was ordered to stop; until it has stopped, no hunt begins
    RESTARTING = "restarting"


ORDERED = {Then.STOP: Then.STOPPING, Then.RESTART: Then.RESTARTING}
"""Maps each action to the value that replaces it when svc-stack gets the order."""


class Until(StrEnum):
    """The condition that must be met before the action (``Then``) follows.

    NO_HUNT: no hunt is running. NOBODY: no hunt is running, and no player is online.
    """

    NO_HUNT = "no hunt"
    NOBODY = "nobody"


@frozen
class Drain:
    """Maintenance mode, switched on by a staff member; ``since`` is in epoch seconds."""

    by: str
    since: float
    then: Then = Then.NOTHING
    until: Until = Until.NO_HUNT
    reason: str = ""

    @property
    def is_ordered(self) -> bool:
        """Return whether svc-stack has already been ordered to stop or restart."""
        return self.then in ORDERED.values()


DRAIN = Kind("drain", Drain)


def is_draining(transaction: BoardTransaction) -> bool:
    """Return whether maintenance mode is on; while it is on, no new hunts begin."""
    return transaction.get(DRAIN, ONLY) is not None
