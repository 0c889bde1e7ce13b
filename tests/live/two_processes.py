"""Two metagame processes that share one PostgreSQL, and concurrent requests to both."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, chdir
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field
from pytest_twisted import ensureDeferred
from twisted.internet.defer import Deferred, gatherResults

from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.store import SqlAccounts, add_game_server_key
from tests.support.game import GAME_SERVER_KEY
from tests.support.joined import Joined, joined_metagame, register
from tests.support.postgres import fresh_database
from tests.support.processes import bearer

ROUNDS = 5
SECRET = "live-secret-live-secret-live-secret"
Player = dict[str, str]
Reply = tuple[int, Any]  # status, and the body where it is JSON


@define
class Both:
    """The two metagames and an owner's key."""

    services: Sequence[Joined]
    key: str = field(repr=False)
    database: str
    _names: Any = field(factory=itertools.count, init=False)

    @property
    def owner(self) -> dict[str, str]:
        """Return the header of a request that the owner sends."""
        return {"x-svc-user-api-key": self.key}

    async def player(self) -> Player:
        """Register a new player and return the credentials, with the player's ``name``."""
        name = f"player_{next(self._names)}"
        return {**await register(self.services[0], name), "name": name}

    async def players(self, count: int) -> list[Player]:
        return [await self.player() for _ in range(count)]

    async def pairs(self) -> AsyncIterator[tuple[Player, Player]]:
        """Yield ``ROUNDS`` pairs of newly registered players."""
        for _ in range(ROUNDS):
            yield await self.player(), await self.player()

    async def call(
        self, method: str, path: str, by: Player | None = None, body: Any = None, at: int = 0
    ) -> Reply:
        """Send one request; the owner sends it if ``by`` is not given."""
        headers = self.owner if by is None else bearer(by)
        return await self._ask(at, method, path, body, headers)

    async def good(
        self, method: str, path: str, by: Player | None = None, body: Any = None, at: int = 0
    ) -> Any:
        """Send one request that must succeed and return the body of the response."""
        status, reply = await self.call(method, path, by, body, at)
        assert 200 <= status < 300, (method, path, status, reply)
        return reply

    async def create_guild(self, leader: Player, name: str, at: int = 0) -> Reply:
        """Create a guild, as a game server does."""
        body = {"leader_account_id": leader["id"], "name": name, "nameplate": ""}
        headers = {"x-svc-gameserver-apikey": GAME_SERVER_KEY}
        return await self._ask(at, "POST", "/guild", body, headers)

    async def _ask(
        self, at: int, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> Reply:
        status, reply = await self.services[at % 2].ask(method, path, body, headers)
        return status, orjson.loads(reply) if reply[:1] in (b"{", b"[") else None


async def at_once(*acts: Awaitable[tuple[int, Any]]) -> list[Reply]:
    """Make all calls concurrently and return the replies."""

    async def run_act(act: Awaitable[Reply]) -> Reply:
        return await act

    done: list[Reply] = await gatherResults([Deferred.fromCoroutine(run_act(act)) for act in acts])
    return done


def statuses(replies: Sequence[Reply]) -> list[int]:
    """Return the sorted statuses; fail on any server error."""
    result = sorted(status for status, _ in replies)
    assert result[-1] < 500, replies
    return result


def on_two_metagames(test: Callable[[Both], Awaitable[None]], **more: str) -> Callable[[Path], Any]:
    """Run the test on its own two metagames; ``more`` holds further settings."""

    async def run(tmp_path: Path) -> None:
        url = fresh_database()
        engine = make_engine(database_url(url))
        migrations.upgrade(engine)
        with engine.begin() as tx:
            add_game_server_key(tx, GAME_SERVER_KEY)
            made = rules.register(
                SqlAccounts(tx), "OPEN", "Owner", None, time.time(), is_admin=True
            )
        engine.dispose()
        settings = {
            "DATABASE_URL": url,
            "GATEWAY_SECRET": SECRET,
            "DATABASE_CONNECTIONS": "4",
            "GUILD_MAX_MEMBERS": "3",
            "LOG_LEVEL": "warn",
            "STORE": "free",
            "STORE_REPEATABLE_TOKENS": "1",
            **more,
        }
        async with AsyncExitStack() as started:
            started.enter_context(chdir(tmp_path))  # where the snapshot of live state goes
            (tmp_path / "metagame.env").touch()  # so that both know the folder of the host
            services = [
                await started.enter_async_context(joined_metagame(tmp_path, **settings))
                for _ in range(2)
            ]
            await test(Both(services, made.key, url))

    run.__name__, run.__doc__ = getattr(test, "__name__", "test"), test.__doc__
    twisted: Callable[[Path], Any] = ensureDeferred(run)
    return twisted
