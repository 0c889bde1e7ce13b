"""How far a connection is, and the only ways from one stage to the next. Spec: 2 §4 Chat."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from attrs import define
from automat import TypeMachineBuilder


class Stage(Enum):
    """What a connection may do now."""

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
    """The stage a connection is at; ``Steps`` changes it."""

    stage: Stage = Stage.NEW


class Steps(Protocol):
    """What can happen to a connection; what cannot at its stage raises NoTransition."""

    def opened(self) -> None:
        """The client opened its stream."""

    def tried(self) -> None:
        """The client sent its one ``<auth>``."""

    def logged_in(self) -> None:
        """The account is who it says."""

    def bound(self) -> None:
        """The client has named its resource."""

    def asked(self) -> None:
        """The game is asked; what the client sends meanwhile is kept."""

    def answered(self) -> None:
        """The game has answered."""

    def ended(self) -> None:
        """Nothing more is sent or worked on."""


_ASKED = ((Stage.TRIED, Stage.ASKING), (Stage.BOUND, Stage.WAITING))
_WAYS = (
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
    for before, step, after in _WAYS:

        def go(_: Steps, where: Where, after: Stage = after) -> None:
            where.stage = after

        states[before].upon(step).to(states[after])(go)
    return builder


steps_of = _machine().build()
"""``steps_of(where)`` makes the Steps that move it."""
