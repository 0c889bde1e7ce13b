"""The settings of ``svc-gateway``; see docs/owners/configuration.md."""

from collections.abc import Callable
from pathlib import Path

from attrs import frozen

from svcserver.board.factory import IN_MEMORY, LiveUrl, live_url
from svcserver.edge.verdicts import Limits
from svcserver.gateway.policy import Bucket
from svcserver.kernel.digits import whole_in
from svcserver.kernel.local_urls import WRONG_URL, Address, local_url, local_urls
from svcserver.kernel.rates import Rate
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import (
    Bad,
    BadSetting,
    env,
    ip_address,
    log_level,
    off_unless_1,
    on_unless_0,
    port,
    strong_secret,
    whole,
)

_MOST = 1_000_000
MOST_WORKERS = 64


def upstreams(text: str) -> tuple[Address, ...]:
    """Parse an upstream's URL, or several URLs with commas between them.

    A service with several workers has several URLs.
    """
    addresses = local_urls(text)
    if not addresses:
        raise ValueError(WRONG_URL)
    if len(set(addresses)) < len(addresses):
        raise ValueError("lists the same address twice")
    if len(addresses) > MOST_WORKERS:
        raise ValueError(f"lists more than {MOST_WORKERS} addresses")
    return addresses


def rate(text: str) -> Rate:
    """Parse ``<burst>,<per minute>``: a whole number, and a rate above 0 that may have decimals."""
    words = (
        f"must be BURST,RATE, such as 20,60, with BURST a whole number from 1 to {_MOST} and "
        f"RATE (per minute) above 0 and at most {_MOST}"
    )
    burst, comma, per_minute = (part.strip() for part in text.partition(","))
    size = whole_in(burst, 15)
    if not comma or size is None or whole_in(per_minute.replace(".", "", 1), 30) is None:
        raise ValueError(words)
    result = Rate(size, float(per_minute))
    if not (1 <= result.burst <= _MOST and 0 < result.per_minute <= _MOST):
        raise ValueError(words)
    return result


def ms(low: int, high: int) -> Callable[[str], float]:
    """Return a parser for whole milliseconds from ``low`` to ``high``; its result is in seconds."""
    read = whole(low, high)
    return lambda text: read(text) / 1000


@frozen
class GatewaySettings:
    """The gateway's settings; each attribute is an environment variable."""

    bind: str = env("GATEWAY_BIND", ip_address, default="0.0.0.0")  # noqa: S104 - its purpose
    port: int = env("GATEWAY_PORT", port, default=443)
    certificate: Path = env("GATEWAY_CERT", Path)
    key: Path = env("GATEWAY_KEY", Path)
    secret: Secret = env("GATEWAY_SECRET", strong_secret)
    metagame: tuple[Address, ...] = env(
        "GATEWAY_METAGAME_URL", upstreams, default=(Address("127.0.0.1", 61000),)
    )
    content: tuple[Address, ...] = env(
        "GATEWAY_CONTENT_URL", upstreams, default=(Address("127.0.0.1", 61002),)
    )
    chat: tuple[Address, ...] = env(
        "GATEWAY_WS_URL", upstreams, default=(Address("127.0.0.1", 61099),)
    )
    allowlist: bool = env("GATEWAY_ALLOWLIST", on_unless_0, default=True)
    refresh_s: int = env("GATEWAY_ALLOWLIST_REFRESH_SECONDS", whole(5, 540), default=60)
    max_body: int = env("GATEWAY_MAX_BODY_BYTES", whole(1024, 67_108_864), default=131_072)
    max_connections: int = env("GATEWAY_MAX_CONNECTIONS", whole(1, 100_000), default=2048)
    max_per_address: int = env("GATEWAY_MAX_CONNECTIONS_PER_IP", whole(1, 100_000), default=128)
    general: Rate = env("GATEWAY_RATE_GENERAL", rate, default=Rate(300, 180))
    content_rate: Rate = env("GATEWAY_RATE_CONTENT", rate, default=Rate(600, 600))
    register: Rate = env("GATEWAY_RATE_REGISTER", rate, default=Rate(5, 0.2))
    name: Rate = env("GATEWAY_RATE_NAME", rate, default=Rate(30, 12))
    token: Rate = env("GATEWAY_RATE_TOKEN", rate, default=Rate(10, 1))
    connect: Rate = env("GATEWAY_RATE_CONNECT", rate, default=Rate(200, 300))
    ws: Rate = env("GATEWAY_RATE_WS", rate, default=Rate(20, 12))
    handshake_s: float = env("GATEWAY_HANDSHAKE_TIMEOUT_MS", ms(1000, 120_000), default=10.0)
    headers_s: float = env("GATEWAY_HEADERS_TIMEOUT_MS", ms(1000, 120_000), default=10.0)
    request_s: float = env("GATEWAY_REQUEST_TIMEOUT_MS", ms(1000, 600_000), default=30.0)
    keep_alive_s: float = env("GATEWAY_KEEPALIVE_TIMEOUT_MS", ms(1000, 600_000), default=65.0)
    idle_s: float = env("GATEWAY_IDLE_TIMEOUT_MS", ms(1000, 3_600_000), default=120.0)
    upstream_idle_s: float = env(
        "GATEWAY_UPSTREAM_IDLE_TIMEOUT_MS", ms(1000, 3_600_000), default=120.0
    )
    ws_idle_s: float = env("GATEWAY_WS_IDLE_TIMEOUT_MS", ms(1000, 86_400_000), default=300.0)
    grace_s: float = env("GATEWAY_SHUTDOWN_GRACE_MS", ms(0, 300_000), default=10.0)
    join_page: bool = env("GATEWAY_JOIN_PAGE", off_unless_1, default=False)
    live_url: LiveUrl = env("LIVE_URL", live_url, default=LiveUrl(IN_MEMORY))
    park_s: float = env("GATEWAY_PARK_MS", ms(0, 60_000), default=5.0)
    metrics_port: int | None = env("METRICS_PORT", whole(1, 65535), default=None)
    log_level: str = env("LOG_LEVEL", log_level, default="info", bad=Bad.WARN)

    def limits(self) -> Limits:
        """Return the time and size limits for the proxy core."""
        return Limits(
            headers_s=self.headers_s,
            request_s=self.request_s,
            keep_alive_s=self.keep_alive_s,
            idle_s=self.idle_s,
            upstream_idle_s=self.upstream_idle_s,
            tunnel_idle_s=self.ws_idle_s,
            handshake_s=self.handshake_s,
            max_body=self.max_body,
        )

    def rates(self) -> dict[Bucket, Rate]:
        """Return the rate of each token bucket."""
        return {
            Bucket.GENERAL: self.general,
            Bucket.CONTENT: self.content_rate,
            Bucket.REGISTER: self.register,
            Bucket.NAME: self.name,
            Bucket.TOKEN: self.token,
            Bucket.WS: self.ws,
        }


@frozen
class AllowlistClientSettings:
    """The environment variables that are read only if GATEWAY_ALLOWLIST is on."""

    url: Address = env("ALLOWLIST_URL", local_url, default=Address("127.0.0.1", 61005))
    more: tuple[Address, ...] = env("ALLOWLIST_ADDITIONAL_URLS", local_urls, default=())
    secret: Secret = env("ALLOWLIST_SECRET", strong_secret)


__all__ = [
    "Address",
    "AllowlistClientSettings",
    "BadSetting",
    "GatewaySettings",
    "local_url",
    "rate",
]
