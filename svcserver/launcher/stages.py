"""The state machine of one host: what the player can do now, and what each input starts. No I/O.

The page and the terminal show ``Host``. The machine calls ``Actions``; an action's result is an
input of the machine. An input that the current stage does not expect, such as a second click, is
ignored.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from attrs import define, field
from automat import TypeMachineBuilder

from svcserver.launcher import words


class Stage(Enum):
    """The stages between an invite and the running game."""

    INVITED = "has opened an invite, and compares the host's fingerprint"
    NAMING = "trusts the host; chooses a name, or imports a key"
    REGISTERING = "waits for the account, or for the host to recognise a key"
    UNCHECKED = "has an account; the game's files are not checked yet"
    CHECKING = "the game's files are compared with the host's list"
    INCOMPLETE = "files are missing or damaged"
    FETCHING = "files are being downloaded"
    READY = "can play"
    STARTING = "the relay and the game are being started"
    PLAYING = "the game runs"


# stages with work in progress, which the end of the launcher would interrupt
BUSY = (Stage.REGISTERING, Stage.CHECKING, Stage.FETCHING, Stage.STARTING, Stage.PLAYING)


class Actions(Protocol):
    """The actions that the state machine starts; each returns immediately and never raises."""

    def register(self, name: str) -> None: ...
    def recognise(self) -> None: ...  # find the account of an imported key
    def check(self, thorough: bool) -> None: ...  # ``thorough`` reads every byte again
    def fetch(self) -> None: ...  # download what the check found missing
    def stop_files(self) -> None: ...  # stop checking or downloading
    def start_game(self) -> None: ...  # start the relay, then the game
    def stop_game(self) -> None: ...  # stop the game and the relay


@define
class HostProgress:
    """The player's state on one host, and the texts that the page and the terminal show."""

    actions: Actions
    stage: Stage = Stage.INVITED
    trouble: str = ""  # the fault that the player reads, until the next step
    note: str = ""  # any other text for the player
    missing: int = 0  # bytes
    hands_out_files: bool = True
    _after: Stage = field(default=Stage.UNCHECKED, init=False)


class Inputs(Protocol):
    """The inputs of the state machine: the player's commands, and the results of actions."""

    def agree(self) -> None: ...  # the player trusts the host
    def choose(self, name: str) -> None: ...  # the player has chosen a name
    def bring(self) -> None: ...  # the player has imported a key, which is already saved
    def known(self) -> None: ...  # the host knows the account
    def refused(self, why: str) -> None: ...  # the host made no account, or rejects the key
    def check(self, thorough: bool) -> None: ...  # ``thorough`` reads every byte again
    def whole(self, hands_out_files: bool) -> None: ...  # all files are right, or none are offered
    def lacking(self, missing: int, why: str) -> None: ...  # ``missing`` bytes to download
    def fetch(self) -> None: ...  # the player wants the download
    def stop(self) -> None: ...  # stop the running check, download or game
    def failed(self, why: str) -> None: ...  # an action failed
    def play(self) -> None: ...
    def started(self) -> None: ...  # the game's process runs
    def ended(self, why: str) -> None: ...  # ``why`` is empty unless the game failed
    def expelled(self, why: str) -> None: ...  # the host no longer knows the key


def _move(after: Stage, do: Callable[..., None] | None = None) -> Callable[..., Any]:
    """Return a transition to stage ``after`` that clears the displayed texts and calls ``do``."""

    def go(_: Inputs, host: HostProgress, *args: Any) -> None:
        host.stage, host.trouble, host.note = after, "", ""
        if do is not None:
            do(host, *args)

    return go


def _trouble(host: HostProgress, why: str) -> None:
    host.trouble = why


def _whole(host: HostProgress, hands_out_files: bool) -> None:
    host.missing, host.hands_out_files = 0, hands_out_files
    host.note = "" if hands_out_files else words.NO_FILES


def _lacking(host: HostProgress, missing: int, why: str) -> None:
    host.missing, host.note, host.hands_out_files = missing, why, True


_Do = Callable[..., None]
_MEMBER = (Stage.UNCHECKED, Stage.INCOMPLETE, Stage.READY)
_STEPS: tuple[tuple[Stage, Any, Stage, _Do | None], ...] = (
    (Stage.INVITED, Inputs.agree, Stage.NAMING, None),
    (
        Stage.NAMING,
        Inputs.choose,
        Stage.REGISTERING,
        lambda host, name: host.actions.register(name),
    ),
    *(
        (stage, Inputs.bring, Stage.REGISTERING, lambda host: host.actions.recognise())
        for stage in (Stage.NAMING, *_MEMBER)
    ),
    (Stage.REGISTERING, Inputs.known, Stage.UNCHECKED, None),
    (Stage.REGISTERING, Inputs.refused, Stage.NAMING, _trouble),
    *(
        (stage, Inputs.check, Stage.CHECKING, lambda host, thorough: host.actions.check(thorough))
        for stage in _MEMBER
    ),
    (Stage.CHECKING, Inputs.whole, Stage.READY, _whole),
    (Stage.CHECKING, Inputs.lacking, Stage.INCOMPLETE, _lacking),
    (Stage.CHECKING, Inputs.failed, Stage.UNCHECKED, _trouble),
    (Stage.CHECKING, Inputs.stop, Stage.UNCHECKED, lambda host: host.actions.stop_files()),
    (Stage.INCOMPLETE, Inputs.fetch, Stage.FETCHING, lambda host: host.actions.fetch()),
    (Stage.FETCHING, Inputs.whole, Stage.READY, _whole),
    (Stage.FETCHING, Inputs.lacking, Stage.INCOMPLETE, _lacking),
    (Stage.FETCHING, Inputs.failed, Stage.INCOMPLETE, _trouble),
    (Stage.FETCHING, Inputs.stop, Stage.INCOMPLETE, lambda host: host.actions.stop_files()),
    (Stage.READY, Inputs.play, Stage.STARTING, lambda host: host.actions.start_game()),
    (Stage.STARTING, Inputs.started, Stage.PLAYING, None),
    (Stage.STARTING, Inputs.failed, Stage.READY, _trouble),
    (Stage.STARTING, Inputs.stop, Stage.READY, lambda host: host.actions.stop_game()),
    (Stage.PLAYING, Inputs.ended, Stage.READY, _trouble),
    (Stage.PLAYING, Inputs.stop, Stage.READY, lambda host: host.actions.stop_game()),
    *((stage, Inputs.expelled, stage, _trouble) for stage in (*_MEMBER, Stage.PLAYING)),
)
_ALL = [step for name, step in vars(Inputs).items() if not name.startswith("_")]


def _nothing(_: Inputs, host: HostProgress, *args: Any) -> None:
    """Ignore an input that the current stage does not expect."""


def _machine() -> TypeMachineBuilder[Inputs, HostProgress]:
    builder = TypeMachineBuilder(Inputs, HostProgress)
    states = {stage: builder.state(stage.name) for stage in Stage}
    handled = {(before, step) for before, step, _, _ in _STEPS}
    for before, step, after, do in _STEPS:
        states[before].upon(step).to(states[after])(_move(after, do))
    for stage in Stage:
        for step in _ALL:
            if (stage, step) not in handled:
                states[stage].upon(step).to(states[stage])(_nothing)
    return builder


_builder = _machine()
# machine_of(host) returns the Inputs that change the host; they begin at INVITED
machine_of = _builder.build()


def member_of(host: HostProgress) -> Inputs:
    """Return the Inputs that change a host on which the player already has an account."""
    inputs, actions, no_actions = machine_of(host), host.actions, _NoActions()
    host.actions = no_actions
    inputs.agree()
    inputs.bring()
    inputs.known()
    host.actions = actions
    return inputs


class _NoActions:
    """Actions that do nothing; only ``member_of`` uses them."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None
