"""A real service in the test's own process, with a running reactor, sockets and a database.

The module is for pytest-twisted tests that send real bytes over loopback, but send no signals and
kill no process. ``beside_a_metagame`` runs a test in a thread, so that the test can block until
each response arrives.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, chdir, contextmanager
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import patch

import orjson
from attrs import define, field
from pytest_twisted import ensureDeferred
from treq.client import HTTPClient
from twisted.internet import reactor
from twisted.internet.defer import maybeDeferred
from twisted.internet.threads import deferToThread
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.web.client import Agent, HTTPConnectionPool

from svcserver.kernel.settings import load
from svcserver.metagame.service import Options, makeService
from svcserver.metagame.settings import MetagameSettings
from svcserver.web import serving
from tests.support.processes import PATIENCE_S, ask, free_port, metagame_environ

FREE = "free"  # in place of a port


@define
class Joined:
    """A running metagame and a client that opens a new connection for each request."""

    port: int
    http: HTTPClient

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Send one request and return the status and body of the response."""
        data = None if body is None else orjson.dumps(body)
        sent = {"Content-Type": "application/json"} if data is not None else {}
        reply = await self.http.request(
            method,
            f"http://127.0.0.1:{self.port}{path}",
            data=data,
            headers={**sent, **(headers or {})},
            timeout=PATIENCE_S,
        )
        return reply.code, await reply.content()


@asynccontextmanager
async def joined_metagame(folder: Path, **environ: str) -> AsyncIterator[Joined]:
    """Run a metagame with these settings, started and stopped as ``twistd`` would do it."""
    options = Options()
    file = folder / "metagame.env"
    options["env-file"] = str(file) if file.is_file() else None
    environment = metagame_environ(folder, free_port(), **environ)
    options.settings, options.warnings = load(MetagameSettings, environment)
    options.environ = environment
    # With a database in memory, live state is saved in the working folder. A starting service
    # collects garbage once, which takes half a second in a test process.
    with chdir(folder), patch.object(serving, "gc"):
        top = makeService(options, reactor)
        top.privilegedStartService()
        top.startService()
    pool = HTTPConnectionPool(reactor, persistent=False)
    try:
        yield Joined(
            options.settings.port,
            HTTPClient(Agent(reactor, connectTimeout=PATIENCE_S, pool=pool)),
        )
    finally:
        await pool.closeCachedConnections()
        await maybeDeferred(top.stopService)


async def register(service: Joined, name: str) -> dict[str, str]:
    """Register a player and return the key, token and account id."""
    status, body = await service.ask("POST", "/svc/api/Register", {"Username": name})
    assert status == 200, body
    key = orjson.loads(body)["UUK"]
    status, body = await service.ask("POST", "/account/api/oauth/token", {"exchange_code": key})
    assert status == 200, body
    reply = orjson.loads(body)
    return {"key": key, "token": reply["access_token"], "id": reply["account_id"]}


@define
class Beside:
    """A metagame of this process, used from a thread; ``log`` holds the metagame's log lines."""

    folder: Path
    environ: dict[str, str]
    events: list[LogEvent] = field(factory=list)

    @property
    def log(self) -> str:
        return "\n".join(formatEvent(event) for event in list(self.events))

    def port(self, name: str = "PORT") -> int:
        """Return a port from the metagame's settings."""
        return int(self.environ[name])

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Send one request on a new connection."""
        return ask(self.port(), method, path, body, headers)

    @contextmanager
    def still(self) -> Iterator[None]:
        """Pause the metagame, so that a client receives only what was already sent."""
        held, goes_on = Event(), Event()

        def hold() -> None:
            held.set()
            goes_on.wait(2 * PATIENCE_S)

        turns: Any = reactor
        turns.callFromThread(hold)
        assert held.wait(PATIENCE_S)
        try:
            yield
        finally:
            goes_on.set()


def beside_a_metagame(**environ: str) -> Callable[[Callable[[Beside], None]], Callable[..., Any]]:
    """Return a decorator that runs a test in a thread beside a metagame with these settings."""

    def decorate(test: Callable[[Beside], None]) -> Callable[..., Any]:
        async def run(tmp_path: Path) -> None:
            chosen = {name: str(free_port()) for name, item in environ.items() if item == FREE}
            settings = metagame_environ(tmp_path, free_port(), **(environ | chosen))
            beside = Beside(tmp_path, settings)
            globalLogPublisher.addObserver(beside.events.append)
            try:
                async with joined_metagame(tmp_path, **settings):
                    await deferToThread(test, beside)
            finally:
                globalLogPublisher.removeObserver(beside.events.append)

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        twisted: Callable[..., Any] = ensureDeferred(run)
        return twisted

    return decorate
