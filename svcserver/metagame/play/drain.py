"""Maintenance mode: no new hunts begin, those under way end. On the board: one for all workers.

The database keeps it, too (``owner/maintenance``), so that it outlives a crash.
"""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

from svcserver.board.board import BoardTransaction
from svcserver.board.kinds import Kind

ONLY = ""  # the key of the only entry


class Then(StrEnum):
    """The action once the server is empty."""

    NOTHING = ""
    STOP = "stop"
    RESTART = "restart"
    STOPPING = "stopping"  # the stack has been told; no hunt begins until it has done it
    RESTARTING = "restarting"


TOLD = {Then.STOP: Then.STOPPING, Then.RESTART: Then.RESTARTING}
"""What each act becomes once the server is empty."""


class Until(StrEnum):
    """The condition for the action: no hunt runs, or nobody is online either."""

    NO_HUNT = "no hunt"
    NOBODY = "nobody"


@frozen
class Drain:
    """Maintenance mode, switched on by a member of staff; ``since`` in epoch seconds."""

    by: str
    since: float
    then: Then = Then.NOTHING
    until: Until = Until.NO_HUNT
    reason: str = ""

    @property
    def is_told(self) -> bool:
        """Return whether the server was empty and the stack has its order."""
        return self.then in TOLD.values()


DRAIN = Kind("drain", Drain)


def is_draining(transaction: BoardTransaction) -> bool:
    """Return whether new hunts are paused."""
    return transaction.get(DRAIN, ONLY) is not None
