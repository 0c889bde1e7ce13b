"""Maintenance mode: new hunts are paused while running hunts end.

It is on the board, for all workers, and in the database (``owner/maintenance``), so that it
survives a crash.
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
    STOPPING = "stopping"  # the stack has its order; no hunt begins until it is carried out
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
