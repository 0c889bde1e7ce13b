"""The validation of account keys by the metagame, with a cache.

Answers are cached by the key's SHA-256; the key itself is neither stored nor logged.
Concurrent requests with the same key share one query. Spec: 2 §4 Content server.
"""

from typing import Any

import treq
from attrs import define, field, frozen
from cachetools import TLRUCache
from treq.client import HTTPClient
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers

from svcserver.kernel import json
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.headers import ACCOUNT_KEY
from svcserver.kernel.refusals import Unauthenticated, Unavailable
from svcserver.kernel.secrets import fingerprint

log = Logger()

TIMEOUT_S = 5.0
REFUSED_S = 30.0
MAX_KEPT = 10_000
MAX_ASKING = 256  # different keys that are checked concurrently
MAX_REPLY = 64 * 1024  # bytes of the metagame's answer
RETRY_S = 5
WARN_EVERY_S = 60.0


@frozen
class KeyOwner:
    """The account that a valid key belongs to: its id and username."""

    account: str
    name: str


class UnusableAnswer(Exception):
    """The error when the metagame gives no usable answer; ``str()`` is the reason."""


@define(eq=False)
class KeyCheck:
    """The checker of account keys; it asks the metagame at ``base`` and caches the answers."""

    http: HTTPClient
    clock: IReactorTime
    base: str
    accepted_s: float = 300.0
    counters: Counters = field(factory=Counters)
    _cache: TLRUCache[str, KeyOwner | None] = field(init=False)
    _asking: dict[str, list[Deferred[KeyOwner | None]]] = field(factory=dict, init=False)
    _warned_at: float | None = field(default=None, init=False)

    @_cache.default
    def _empty_cache(self) -> TLRUCache[str, KeyOwner | None]:
        return TLRUCache(MAX_KEPT, self._until, self.clock.seconds)

    def _until(self, mark: str, player: KeyOwner | None, now: float) -> float:
        return now + (REFUSED_S if player is None else self.accepted_s)

    async def player_of(self, key: str | None) -> KeyOwner:
        """Return the key's account; raises Unauthenticated, or Unavailable if no answer arrives."""
        if key is None or not is_key_shaped(key):
            raise Unauthenticated(code="unauthorized")
        mark = fingerprint(key)
        if mark in self._cache:
            player = self._cache[mark]
        else:
            player = await self._join(mark, key)
        if player is None:
            self.counters.add(Counted.FAILED_LOGINS, "account_key")
            raise Unauthenticated(code="unauthorized")
        return player

    def _join(self, mark: str, key: str) -> Deferred[KeyOwner | None]:
        """Wait for the running query about this key, or start one."""
        waiting = self._asking.get(mark)
        first = waiting is None
        if waiting is None:
            if len(self._asking) >= MAX_ASKING:
                raise Unavailable(code="auth_unavailable", retry_after_s=RETRY_S)
            waiting = self._asking[mark] = []
        mine: Deferred[KeyOwner | None] = Deferred(waiting.remove)
        waiting.append(mine)
        if first:
            reply = Deferred.fromCoroutine(self._fetch_player(key))
            reply.addBoth(self._answered, mark)
            reply.addErrback(lambda why: log.failure("a key check failed unexpectedly", why))
        return mine

    def _answered(self, result: KeyOwner | Failure | None, mark: str) -> None:
        """Cache the answer and pass it to every waiting request."""
        if isinstance(result, Failure):
            self._warn(result)
        else:
            self._cache[mark] = result
        for waiting in self._asking.pop(mark):
            if isinstance(result, Failure):
                waiting.errback(Unavailable(code="auth_unavailable", retry_after_s=RETRY_S))
            else:
                waiting.callback(result)

    def _warn(self, why: Failure) -> None:
        """Log the failure at most once a minute, because every request would repeat it."""
        now = self.clock.seconds()
        if self._warned_at is None or now - self._warned_at >= WARN_EVERY_S:
            self._warned_at = now
            log.warn(
                "the metagame at {base} cannot check players' keys: {why}. "
                "Check METAGAME_URL, and whether the metagame is running",
                base=self.base,
                why=why.getErrorMessage(),
            )
        if not why.check(UnusableAnswer):
            log.failure("a key check failed unexpectedly", why)

    async def _fetch_player(self, key: str) -> KeyOwner | None:
        """Return the key's player, or None if the key is invalid; raises UnusableAnswer."""
        try:
            reply = Deferred.fromCoroutine(self._get(key))
            code, body = await reply.addTimeout(TIMEOUT_S, self.clock)
        except Exception as why:  # connection, timeout and protocol errors all mean "no answer"
            raise UnusableAnswer(type(why).__name__) from why
        if code in (401, 403):
            return None
        player = _player(body) if code == 200 else None
        if player is None:
            raise UnusableAnswer(f"it answered with status {code} and without a UserId")
        return player

    async def _get(self, key: str) -> tuple[int, bytes]:
        url = f"{self.base}/svc/api/GetUserInfo"
        headers = Headers({ACCOUNT_KEY: [key.encode()]})
        reply = await self.http.get(url, headers=headers, allow_redirects=False, unbuffered=True)
        parts: list[bytes] = []

        def collect(data: bytes) -> None:
            if sum(map(len, parts)) + len(data) > MAX_REPLY:
                raise UnusableAnswer("the answer is too long")
            parts.append(data)

        await treq.collect(reply, collect)
        return int(reply.code), b"".join(parts)


def is_key_shaped(key: str) -> bool:
    """Return whether ``key`` has 1 to 256 printable ASCII characters and no spaces."""
    return 1 <= len(key) <= 256 and all("!" <= character <= "~" for character in key)


def _player(body: bytes) -> KeyOwner | None:
    try:
        value: Any = json.parse(body)
    except json.BadJson:
        return None
    match value:
        case {"UserId": str(account)} if account:
            name = value.get("Username")
            return KeyOwner(account, name if isinstance(name, str) else "")
    return None
