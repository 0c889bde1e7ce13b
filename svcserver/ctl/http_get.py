"""Blocking requests to a service of this host, for commands without a reactor."""

from __future__ import annotations

import http.client
from typing import Any
from urllib.parse import urlsplit

from svcserver.ctl.output import fail
from svcserver.kernel import json

ANSWER_S = 5.0
ACT_S = 60.0  # a game server may take its time to end
MAX_ANSWER = 16 * 1024 * 1024


def get_json(
    base: str, path: str, headers: dict[str, str], what: str, nothing: tuple[int, ...] = ()
) -> Any:
    """The JSON of a 200 answer, None for a status in ``nothing``; else fails with one line.

    ``what`` names the service in that line.
    """
    url = urlsplit(base)
    connection = http.client.HTTPConnection(url.hostname or "", url.port or 80, timeout=ANSWER_S)
    try:
        connection.request("GET", path, headers=headers)
        with connection.getresponse() as reply:
            body = reply.read(MAX_ANSWER)
    except (OSError, http.client.HTTPException) as why:
        fail(f"{what} does not answer on {base}: {why or type(why).__name__}; is it running?")
    finally:
        connection.close()
    if reply.status in nothing:
        return None
    if reply.status == 404:  # every component knows the paths it is asked
        fail(f"{what} answered 404 to {path}: {foreign(base)}")
    if reply.status != 200:
        fail(f"{what} answered {reply.status} to {path}")
    try:
        return json.parse(body)
    except json.BadJson:
        fail(f"{what} answered something that is not JSON: {foreign(base)}")


def post_json(base: str, path: str, headers: dict[str, str], body: Any, what: str) -> Any:
    """The JSON of the answer to ``body``; fails with one line, a refusal's own where it has one."""
    url = urlsplit(base)
    connection = http.client.HTTPConnection(url.hostname or "", url.port or 80, timeout=ACT_S)
    try:
        sent = {**headers, "Content-Type": "application/json"}
        connection.request("POST", path, json.dump(body), sent)
        with connection.getresponse() as reply:
            said = reply.read(MAX_ANSWER)
    except (OSError, http.client.HTTPException) as why:
        fail(f"{what} does not answer on {base}: {why or type(why).__name__}; is it running?")
    finally:
        connection.close()
    try:
        found = json.parse(said) if said else {}
    except json.BadJson:
        fail(f"{what} answered something that is not JSON: {foreign(base)}")
    if reply.status != 200:
        reason = found.get("message") if isinstance(found, dict) else None
        fail(str(reason or f"{what} answered {reply.status} to {path}"))
    return found


def foreign(base: str) -> str:
    """The likely cause where what answers does not speak as the component does."""
    port = urlsplit(base).port or 80
    return (
        f"another program holds port {port} (ss -ltnp 'sport = :{port}' names it); "
        "end it, or change PORT"
    )
