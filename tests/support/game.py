"""A whole metagame in memory, for feature tests.

game = Game(self, GUILDS="0")
ann = game.player("Ann_1")
page = game.browse("GET", "/character", token=ann.token)
game.clock.advance(90)
"""

from functools import lru_cache
from typing import Any

from attrs import frozen
from twisted.internet.task import Clock

from svcserver.board.rehearsed import RehearsedBoard
from svcserver.ctl.keys import new_signing_keys
from svcserver.kernel import datafiles
from svcserver.kernel.counters import Counters
from svcserver.kernel.settings import load
from svcserver.metagame.access import keys
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.store import SqlAccounts, add_game_server_key
from svcserver.metagame.composition import Metagame
from svcserver.metagame.settings import MetagameSettings
from tests.support.browser import Browser
from tests.support.described import Described
from tests.support.ledger import InstantLedger

# All games of a run load the same key, and OpenSSL needs 0.07 s to verify it.
keys.load_pem_private_key = lru_cache(maxsize=4)(keys.load_pem_private_key)

# They also load the same data files, and no code changes the results.
_load, _read = datafiles.load, datafiles.read_json
_made: dict[Any, Any] = {}


def _load_once(package: str, name: str, make: Any) -> Any:
    how = getattr(make, "func", make), *getattr(make, "keywords", {}).items()
    if datafiles.read_json is not _read or how[0].__name__ == "<lambda>":
        return _load(package, name, make)
    key = package, name, how
    if key not in _made:
        _made[key] = _load(package, name, make)
    return _made[key]


datafiles.load = _load_once

START = 1_790_000_000.0  # some day in September 2026
GAME_SERVER_KEY = "0123456789abcdef" * 3


@frozen
class Player:
    """A registered account with its credentials."""

    id: str
    name: str
    key: str
    token: str


@lru_cache(maxsize=1)
def signing_keys() -> tuple[str, str]:
    """Return the values of AUTH_SIGNING_PRIVKEY_B64 and its public key, made once per test run."""
    made = new_signing_keys()
    return made.private, made.public


def settings(**environ: str) -> MetagameSettings:
    """Return an owner's default settings, overridden by ``environ``."""
    private, public = signing_keys()
    base = {
        "PORT": "61000",
        "AUTH_MODE": "APIKEY",
        "AUTH_SIGNING_PRIVKEY_B64": private,
        "AUTH_SIGNING_PUBKEY_B64": public,
        "REGISTRATION_MODE": "OPEN",
        "MATCHMAKING_MODE": "DEPLOYSERVER",
        "DEPLOYSERVER_URL": "127.0.0.1:61001",
    }
    return load(MetagameSettings, base | environ)[0]


class Game:
    """A metagame with every feature, an in-memory database and a manual clock.

    ``observers`` see each request and its reply. ``http`` replaces the deploy server, and
    ``ledger`` replaces the in-memory database.
    """

    def __init__(
        self,
        test: Any,
        *,
        http: Any = None,
        observers: Any = (),
        ledger: Any = None,
        **environ: str,
    ) -> None:
        self.test = test
        self.clock = Clock()
        self.clock.advance(START)
        self.settings = settings(**environ)
        self.ledger = ledger or InstantLedger()
        if ledger is None:
            test.addCleanup(self.ledger.free)
        now = self.clock.seconds
        self.board = RehearsedBoard(now)
        self.parts = Metagame(
            self.settings, self.ledger, self.board, self.clock, now, http, Counters()
        )
        self.described = Described()
        self.door = self.parts.front_door(*observers, self.described)
        test.addCleanup(self._as_described)
        self.browse = Browser(test, self.door)
        self.ledger.run(lambda tx: add_game_server_key(tx, GAME_SERVER_KEY))

    def _as_described(self) -> None:
        self.test.assertEqual(self.described.faults, [])

    def player(self, name: str, *, admin: bool = False) -> Player:
        """Register a player and log in."""
        made = self.ledger.run(
            lambda tx: rules.register(
                SqlAccounts(tx), "OPEN", name, None, self.clock.seconds(), is_admin=admin
            )
        )
        token = self.parts.tokens.sign(made.account.id)
        return Player(made.account.id, name, made.key, token)


__all__ = ["GAME_SERVER_KEY", "START", "Game", "Player", "settings", "signing_keys"]
