"""The validation of requests to launch a game server, for the metagame and the deploy server."""

import re

from attrs import frozen

from svcserver.kernel.refusals import Malformed

HUNT_ID = re.compile(r"[A-Za-z0-9_+]{1,128}\Z")
PLAYER_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
MATCH_ID = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
GAME_ARGS = re.compile(r"[A-Za-z0-9_/.?=+-]{1,2048}\Z")
MAP_PATH = re.compile(r"/Game(/[A-Za-z0-9_]+)+(\.[A-Za-z0-9_]+)?\Z")
ASSET_PATH = re.compile(r"/Game(/[A-Za-z0-9_]+)+\.[A-Za-z0-9_]+\Z")
MAX_MODE = 64

CITY = "CITY"
SHARED = "SHARED"
ISLAND = "ISLAND"


@frozen
class LaunchRequest:
    """A validated launch request; ``players`` are account ids.

    If ``game_args`` is blank, there are no arguments.
    """

    game_mode: str
    game_args: str
    hunt_id: str
    players: tuple[str, ...] = ()

    @property
    def names_a_map(self) -> bool:
        """True if the arguments name a map; only the arguments of tutorials do."""
        return self.game_mode == ISLAND and bool(self.game_args.strip())

    @property
    def map_path(self) -> str:
        """The map that the arguments name: the part before the first ``?``."""
        return self.game_args.partition("?")[0]

    @property
    def behemoth(self) -> str:
        """The behemoth in arguments of the form ``MAP?...?NAME=BEHEMOTH``; may be empty."""
        return self.game_args.split("?")[2].partition("=")[2]


def check(
    game_mode: str | None,
    game_args: str | None,
    hunt_id: str | None,
    players: tuple[str, ...] = (),
) -> LaunchRequest:
    """Return the validated request; raises Malformed, whose message is only for the log."""
    request = LaunchRequest(game_mode or "", game_args or "", hunt_id or "", players)
    if len(request.game_mode) > MAX_MODE:
        raise Malformed("GameMode is too long")
    if request.hunt_id and not HUNT_ID.match(request.hunt_id):
        raise Malformed("HuntId must have 1 to 128 letters, digits, _ or +")
    if request.names_a_map:
        _check_args(request.game_args)
    return request


def is_player(text: str) -> bool:
    """Return whether ``text`` is safe as an account id on a game server's command line."""
    return PLAYER_ID.match(text) is not None


def is_match(text: str) -> bool:
    """Return whether ``text`` has the format of a match id."""
    return MATCH_ID.match(text) is not None


def _check_args(args: str) -> None:
    if not GAME_ARGS.match(args) or ".." in args or args.startswith("-"):
        raise Malformed("GameArgs has characters that are not allowed")
    parts = args.split("?")
    if not MAP_PATH.match(parts[0]):
        raise Malformed("GameArgs must start with a map path")
    key, equals, value = parts[2].partition("=") if len(parts) > 2 else ("", "", "")
    if not equals or not key or (value and not ASSET_PATH.match(value)):
        raise Malformed("the third part of GameArgs must be NAME=BEHEMOTH")
