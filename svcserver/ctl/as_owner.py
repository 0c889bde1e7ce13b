"""Asks the running metagame as its owner, for what is true only while it runs."""

from __future__ import annotations

import getpass
from typing import Any
from urllib.parse import quote

from attrs import field, frozen

from svcserver.ctl.host import Host
from svcserver.ctl.http_get import get_json, post_json
from svcserver.ctl.output import fail
from svcserver.kernel.machine import SIGNING_KEY, machine_headers
from svcserver.kernel.system import epoch
from svcserver.stack.components import metagame_url

KEY = "x-svc-user-api-key"
WHAT = "the metagame"


def actor() -> str:
    """Who types, for the audit log: the user of this machine."""
    try:
        return f"svcctl:{getpass.getuser()}"
    except (KeyError, OSError):
        return "svcctl"


@frozen
class Owner:
    """The dashboard's routes of a host, asked as its owner, or by a key alone.

    By the machine's ticket, which needs no second factor. The key goes along for a metagame whose
    signing key has been changed in its file, or that is older than tickets.
    """

    base: str
    secret: str = field(repr=False)  # the signing key; empty where there is none
    key: str = field(default="", repr=False)

    def read(self, route: str, **query: str) -> Any:
        """What ``GET /svc/api/ROUTE`` says; fails with one line."""
        return self._get(route, query)

    def find(self, route: str, *, nothing: tuple[int, ...] = (404,), **query: str) -> Any:
        """The same; None where the answer has a status of ``nothing``: there is no such thing."""
        return self._get(route, query, nothing)

    def act(self, route: str, body: dict[str, Any], reason: str = "") -> Any:
        """What ``POST /svc/api/ROUTE`` says, asked for that reason; fails with one line."""
        path = f"/svc/api/{route}"
        if reason:
            body = {**body, "Reason": reason}
        return post_json(self.base, path, self._headers("POST", path), body, WHAT)

    def _get(self, route: str, query: dict[str, str], nothing: tuple[int, ...] = ()) -> Any:
        path = _path(route, query)
        return get_json(self.base, path, self._headers("GET", path), WHAT, nothing)

    def _headers(self, method: str, path: str) -> dict[str, str]:
        by_key = {KEY: self.key} if self.key else {}
        return {**by_key, **machine_headers(self.secret, actor(), method, path, epoch())}


def _path(route: str, query: dict[str, str]) -> str:
    asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    return f"/svc/api/{route}" + (f"?{asked}" if asked else "")


def by_key(host: Host, key: str) -> Owner:
    """Whoever's key it is."""
    return Owner(metagame_url(host.variables("metagame")), "", key)


def owner_of(host: Host) -> Owner:
    """The host's owner, by the signing key in its settings, and ``owner.key`` in its folder."""
    variables = host.variables("metagame")
    secret, key = variables.get(SIGNING_KEY, "").strip(), host.owner_key() or ""
    if not secret and not key:
        fail("only the owner may do this; give --config with a folder that has an owner.key")
    return Owner(metagame_url(variables), secret, key)
