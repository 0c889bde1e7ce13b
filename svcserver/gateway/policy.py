"""The rules that decide which requests the gateway forwards, and to which service.

The gateway has its own list of public management routes. A new management route is not reachable
from the internet until it is added to this list. Spec: 2 §4 Gateway, §7, §8, §9.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from svcserver.edge.verdicts import Refuse
from svcserver.http.heads import METHODS

MANAGEMENT = "/svc"
REGISTER = "/svc/api/register"
NAME_FREE = "/launcher/name-free"
INVITE = "/launcher/invite"
TOKEN = "/account/api/oauth/token"  # noqa: S105 - a path
HEARTBEAT = "/heartbeat"
CONTENT = "/content"
PUBLIC_MANAGEMENT = frozenset(
    [
        ("POST", REGISTER),
        ("GET", "/svc/api/getuserinfo"),
        ("HEAD", "/svc/api/getuserinfo"),
        ("GET", "/svc/api/serverstatus"),
        ("HEAD", "/svc/api/serverstatus"),
        ("GET", "/svc/api/registrationstatus"),
        ("HEAD", "/svc/api/registrationstatus"),
    ]
)

_PLAIN = re.compile(rb"/([0-9A-Za-z_-]++)(?:/[0-9A-Za-z_-]++)*(?![^?])")
_BAD = re.compile(rb"[\\\x00-\x20\x7f]|%(?:2[fFeE]|5[cC]|00)|%(?![0-9A-Fa-f]{2})")
DOTS = (b".", b"..")
_SHORT = 128  # bytes; longer targets are rare, and would make caching costly
_SLASHES = re.compile(r"/{2,}")
_PARTICULAR = frozenset(
    [b"svc", b"account", b"content", b"launcher"]
)  # below these prefixes the whole path is compared


class Bucket(StrEnum):
    """The names of the token buckets for requests, as the log shows them."""

    GENERAL = "general"
    CONTENT = "content"
    REGISTER = "register"
    NAME = "name"  # the checks whether a name is free and an invite valid
    TOKEN = "token"  # noqa: S105 - a bucket's name
    WS = "ws"
    __hash__ = str.__hash__  # Enum's hash is slow Python, and each request looks up its bucket


class Route(StrEnum):
    """The names of the gateway's upstreams, as the log shows them."""

    METAGAME = "metagame"
    CONTENT = "content"
    WS = "ws"
    __hash__ = str.__hash__


class Decision(NamedTuple):  # created for nearly every request; some are cached
    """The decision on a request: its bucket, its upstream, and the refusal, if any."""

    bucket: Bucket
    route: Route
    path: str  # canonical
    refuse: Refuse | None = None


BAD_REQUEST = Refuse(400, "bad_request", "bad_request", close=True)
BAD_PATH = Refuse(400, "bad_path", "bad_path", close=True)
BAD_METHOD = Refuse(405, "method_not_allowed", "method_not_allowed")
BAD_HEADER = Refuse(403, "forbidden", "gameserver_key_header")
ADMIN_ROUTE = Refuse(403, "forbidden", "admin_route")


def canonical(path: bytes) -> str:
    """Return the path decoded once, in lower case, without repeated or trailing slashes."""
    decoded = unquote_to_bytes(path) if b"%" in path else path
    text = decoded.decode("utf-8", "surrogateescape").lower()
    return (_SLASHES.sub("/", text) if "//" in text else text).rstrip("/") or "/"


def rule(
    method: bytes, target: bytes, *, upgrade: bytes, has_body: bool, gameserver_key: bool
) -> Decision:
    """Return the decision on a request; ``upgrade`` is the Upgrade field in lower case."""
    plain = _PLAIN.match(target)
    if plain is not None and not upgrade and not gameserver_key and method in METHODS:
        path = plain[0].decode("ascii").lower()
        if plain[1].lower() not in _PARTICULAR:
            return Decision(Bucket.GENERAL, Route.METAGAME, path)
    request = (method, target, upgrade, has_body, gameserver_key)
    return _cached_rule(*request) if len(target) <= _SHORT else _rule(*request)


def _rule(
    method: bytes, target: bytes, upgrade: bytes, has_body: bool, gameserver_key: bool
) -> Decision:
    raw = target.partition(b"?")[0]
    path = canonical(raw)
    socket = upgrade == b"websocket" and method == b"GET"
    bucket = _bucket(path, socket=socket)
    route = Route.WS if socket else Route.CONTENT if is_under(path, CONTENT) else Route.METAGAME
    return Decision(
        bucket, route, path, _refusal(method, raw, path, upgrade, has_body, gameserver_key)
    )


_cached_rule = lru_cache(maxsize=4096)(_rule)  # the same few requests are repeated


def _bucket(path: str, *, socket: bool) -> Bucket:
    if socket:
        return Bucket.WS
    if path == REGISTER:
        return Bucket.REGISTER
    if path in (NAME_FREE, INVITE):
        return Bucket.NAME
    if path == TOKEN:
        return Bucket.TOKEN
    return Bucket.CONTENT if is_under(path, CONTENT) else Bucket.GENERAL


def _refusal(
    method: bytes, raw: bytes, path: str, upgrade: bytes, has_body: bool, gameserver_key: bool
) -> Refuse | None:
    """Return the first refusal that applies, in the specified order. Spec: 2 §4 Gateway."""
    if method not in METHODS:
        return BAD_METHOD
    if not raw.startswith(b"/") or b"#" in raw:
        return BAD_REQUEST
    if upgrade and (upgrade != b"websocket" or method != b"GET" or has_body):
        return BAD_REQUEST
    if not is_clean(raw):
        return BAD_PATH
    if gameserver_key:
        return BAD_HEADER
    if is_under(path, MANAGEMENT) and (method.decode(), path) not in PUBLIC_MANAGEMENT:
        return ADMIN_ROUTE
    return None


def is_clean(raw: bytes) -> bool:
    """Return whether every server would decode the raw path to the same path."""
    if _BAD.search(raw):
        return False
    return b"/." not in raw or not any(segment in DOTS for segment in raw.split(b"/"))


def is_under(path: str, root: str) -> bool:
    """Return whether a canonical path equals ``root`` or is below ``root``."""
    return path == root or path.startswith(root + "/")


def earns_ports(ruling: Decision, method: bytes, authorization: Sequence[bytes]) -> bool:
    """Return whether a 2xx answer to this request opens the UDP game ports for the client."""
    if method != b"POST" or ruling.route is not Route.METAGAME:
        return False
    if ruling.path == TOKEN:
        return True
    if ruling.path != HEARTBEAT or len(authorization) != 1:
        return False
    word, _, rest = authorization[0].partition(b" ")
    return word.lower() == b"bearer" and bool(rest.strip())
