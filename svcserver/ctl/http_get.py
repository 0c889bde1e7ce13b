"""Blocking requests to a service of this host, for commands without a reactor."""

from __future__ import annotations

import http.client
from typing import Any
from urllib.parse import urlsplit

from svcserver.ctl.output import Failed, fail
from svcserver.kernel import json

ANSWER_S = 5.0
ACT_S = 60.0  # a game server may take its time to end
UNPROVEN = (
    "the metagame knows neither the key nor this machine's ticket: run this on its machine with "
    "the metagame.env that it began with, and restart it where its signing key has been changed"
)
MAX_ANSWER = 16 * 1024 * 1024


class NobodyListens(Failed):
    """The connection was refused, so the request can safely be repeated."""


def get_json(
    base: str, path: str, headers: dict[str, str], what: str, nothing: tuple[int, ...] = ()
) -> Any:
    """Return the JSON of a 200 answer, None for a status in ``nothing``; else fails with one line.

    ``what`` names the service in that line.
    """
    status, body = _exchange(base, "GET", path, headers, what, ANSWER_S)
    if status in nothing:
        return None
    if status == 404:  # every component knows the paths it is asked
        fail(f"{what} answered 404 to {path}: {foreign(base)}")
    if status != 200:
        fail(_refusal(status, body) or f"{what} answered {status} to {path}")
    return _parsed(base, body, what)


def post_json(base: str, path: str, headers: dict[str, str], body: Any, what: str) -> Any:
    """Return the JSON of the reply to ``body``; fails with one line."""
    sent = {**headers, "Content-Type": "application/json"}
    status, reply = _exchange(base, "POST", path, sent, what, ACT_S, json.dump(body))
    if status != 200:
        fail(_refusal(status, reply) or f"{what} answered {status} to {path}")
    return _parsed(base, reply, what) if reply else {}


def _refusal(status: int, body: bytes) -> str:
    """Return a refusal's own reason, or the cure that we know; empty without either."""
    if status == 401:
        return UNPROVEN
    try:
        message = json.parse(body)
    except json.BadJson:
        return ""
    return str(message.get("message") or "") if isinstance(message, dict) else ""


def _exchange(
    base: str,
    method: str,
    path: str,
    headers: dict[str, str],
    what: str,
    patience_s: float,
    body: bytes | None = None,
) -> tuple[int, bytes]:
    """Return the status and body of the reply; fails with one line without one."""
    url = urlsplit(base)
    try:
        port = url.port or 80
    except ValueError:
        fail(f"{what} cannot be asked on {base}: its PORT is no port; svcctl doctor says more")
    connection = http.client.HTTPConnection(url.hostname or "", port, timeout=patience_s)
    try:
        connection.request(method, path, body, headers)
        with connection.getresponse() as reply:
            return reply.status, reply.read(MAX_ANSWER)
    except (OSError, http.client.HTTPException) as why:
        line = f"{what} does not answer on {base}: {why or type(why).__name__}; is it running?"
        if isinstance(why, ConnectionRefusedError):
            raise NobodyListens(f"{line} svcctl up starts the host") from None
        raise Failed(line) from None
    finally:
        connection.close()


def _parsed(base: str, body: bytes, what: str) -> Any:
    try:
        return json.parse(body)
    except json.BadJson:
        fail(f"{what} answered something that is not JSON: {foreign(base)}")


def foreign(base: str) -> str:
    """Return the likely cause of a reply that is not the component's."""
    port = urlsplit(base).port or 80
    return (
        f"another program holds port {port} (ss -ltnp 'sport = :{port}' names it); "
        "end it, or change PORT"
    )
