"""The states of a connection and its allowed transitions, by automat. Spec: 2 §4 Chat."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from attrs import define
from automat import TypeMachineBuilder


class Stage(Enum):
    """The state of a connection."""

    NEW = "connected"
    OPENED = "has opened its stream"
    TRIED = "has tried to log in: refused, or about to be told"
    ASKING = "has shown a valid token: the game is asked about the account"
    KNOWN = "has logged in"
    BOUND = "is a session of the account"
    WAITING = "is one, and waits for the game before its next stanza is worked on"
    ENDED = "is over"


@define
class Where:
    """A connection's current state, which ``Steps`` changes."""

    stage: Stage = Stage.NEW


class Steps(Protocol):
    """The inputs of the state machine; one not allowed in a state raises NoTransition."""

    def opened(self) -> None:
        """The client opened its stream."""

    def tried(self) -> None:
        """The client sent its one ``<auth>``."""

    def logged_in(self) -> None:
        """The account is proven and known."""

    def bound(self) -> None:
        """The client bound its resource."""

    def asked(self) -> None:
        """The game is asked; what the client sends meanwhile is queued."""

    def answered(self) -> None:
        """The game has answered; what was queued meanwhile is read."""

    def ended(self) -> None:
        """The session is over: nothing is read or written any more."""


_ASKED = ((Stage.TRIED, Stage.ASKING), (Stage.BOUND, Stage.WAITING))
WAYS = (
    (Stage.NEW, Steps.opened, Stage.OPENED),
    (Stage.OPENED, Steps.opened, Stage.OPENED),
    (Stage.OPENED, Steps.tried, Stage.TRIED),
    (Stage.TRIED, Steps.opened, Stage.TRIED),
    (Stage.TRIED, Steps.logged_in, Stage.KNOWN),
    (Stage.KNOWN, Steps.opened, Stage.KNOWN),
    (Stage.KNOWN, Steps.bound, Stage.BOUND),
    (Stage.BOUND, Steps.opened, Stage.BOUND),
    *((before, Steps.asked, after) for before, after in _ASKED),
    *((after, Steps.answered, before) for before, after in _ASKED),
    *((stage, Steps.ended, Stage.ENDED) for stage in Stage if stage is not Stage.ENDED),
)


def _machine() -> TypeMachineBuilder[Steps, Where]:
    builder = TypeMachineBuilder(Steps, Where)
    states = {stage: builder.state(stage.name) for stage in Stage}
    for before, step, after in WAYS:

        def go(_: Steps, where: Where, after: Stage = after) -> None:
            where.stage = after

        states[before].upon(step).to(states[after])(go)
    return builder


steps_of = _machine().build()
"""``steps_of(where)`` makes the ``Steps`` that change ``where``."""
