"""Asks the running metagame as its owner, for what is true only while it runs."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from attrs import field, frozen

from svcserver.ctl.host import Host
from svcserver.ctl.http_get import get_json, post_json
from svcserver.ctl.output import fail
from svcserver.stack.components import metagame_url

KEY = "x-svc-user-api-key"
WHAT = "the metagame"


@frozen
class Owner:
    """The dashboard's routes of a host, asked with the owner's key."""

    base: str
    headers: dict[str, str] = field(repr=False)

    def read(self, route: str, **query: str) -> Any:
        """What ``GET /svc/api/ROUTE`` says; fails with one line."""
        return get_json(self.base, _path(route, query), self.headers, WHAT)

    def find(self, route: str, **query: str) -> Any:
        """The same; None where there is no such thing."""
        return get_json(self.base, _path(route, query), self.headers, WHAT, (404,))

    def act(self, route: str, body: dict[str, Any]) -> Any:
        """What ``POST /svc/api/ROUTE`` says; fails with one line."""
        return post_json(self.base, f"/svc/api/{route}", self.headers, body, WHAT)


def _path(route: str, query: dict[str, str]) -> str:
    asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    return f"/svc/api/{route}" + (f"?{asked}" if asked else "")


def owner_of(host: Host) -> Owner:
    """The host's owner, by ``owner.key`` in its folder."""
    key = host.owner_key()
    if key is None:
        fail("only the owner may do this; give --config with a folder that has an owner.key")
    return Owner(metagame_url(host.variables("metagame")), {KEY: key})
