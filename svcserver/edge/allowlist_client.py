"""How gateway and metagame ask an allowlist helper to open or shut the game ports for somebody."""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IReactorTime

from svcserver.kernel import json
from svcserver.kernel.secrets import Secret

TIMEOUT_S = 2.0


async def post(
    http: Any, clock: IReactorTime, url: str, secret: Secret, body: dict[str, str]
) -> None:
    """Give a helper an order, by ``http`` (treq's client), and wait until it has been done.

    Raises ConnectionError where its answer is no 200, ``TimeoutError`` of Twisted where there is
    none in time, and whatever else happens to a connection.
    """
    head = {"x-allowlist-secret": secret.reveal(), "content-type": "application/json"}
    reply = await http.post(url, data=json.dump(body), headers=head).addTimeout(TIMEOUT_S, clock)
    await reply.content().addTimeout(TIMEOUT_S, clock)
    if reply.code != 200:
        raise ConnectionError(f"status {reply.code}")
