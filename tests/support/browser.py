"""A browser for feature tests: real HTTP bytes through the front door, no socket."""

from __future__ import annotations

from typing import Any

import orjson
import treq
from attrs import define, field, frozen
from treq.testing import StubTreq
from twisted.internet.defer import Deferred

from svcserver.web.front import FrontDoor
from tests.support.wire import browsing


@frozen
class Page:
    """An answer: status, headers, body."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return orjson.loads(self.body)


@define
class Browser:
    """``browse("PUT", "/note", json={...}, token="...")`` and look at the ``Page``.

    ``token`` becomes the Authorization header, ``key`` the account key header and
    ``game_server`` the game-server key header; ``data`` is sent as it is.
    """

    test: Any  # the SynchronousTestCase
    front: FrontDoor
    _stubs: list[StubTreq] = field(factory=list, init=False)

    def __call__(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        key: str | None = None,
        game_server: str | None = None,
        headers: dict[str, str] | None = None,
        **sent: Any,
    ) -> Page:
        """Send and wait; the answer must come without time passing."""
        return self.test.successResultOf(
            self.ask(
                method,
                path,
                token=token,
                key=key,
                game_server=game_server,
                headers=headers,
                **sent,
            )
        )

    def ask(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        key: str | None = None,
        game_server: str | None = None,
        headers: dict[str, str] | None = None,
        **sent: Any,
    ) -> Deferred[Page]:
        """The same, for answers that need the clock to advance."""
        head = dict(headers or {})
        if token is not None:
            head["Authorization"] = f"Bearer {token}"
        if key is not None:
            head["x-svc-user-api-key"] = key
        if game_server is not None:
            head["x-svc-gameserver-apikey"] = game_server
        stub = browsing(self.front)
        url = "http://127.0.0.1" + path
        asked = Deferred.fromCoroutine(_read(stub.request(method, url, headers=head, **sent)))
        self._stubs.append(stub)
        self.flush()
        return asked

    def flush(self) -> None:
        """Deliver written bytes; needed after an answer that came by advancing the clock."""
        for _ in range(3):
            for stub in self._stubs[-20:]:
                stub.flush()


async def _read(asked: Deferred[Any]) -> Page:
    reply = await asked
    body = await treq.content(reply)
    headers = {
        name.decode().lower(): values[0].decode()
        for name, values in reply.headers.getAllRawHeaders()
    }
    return Page(reply.code, body, headers)
