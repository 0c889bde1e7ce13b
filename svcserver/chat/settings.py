"""The chat's settings, explained in docs/owners/configuration.md."""

from attrs import frozen

from svcserver.chat.names import is_domain
from svcserver.kernel.rates import Rate
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import (
    Bad,
    BadSetting,
    env,
    off_unless_1,
    one_of,
    secret,
    whole,
    zero_or_one,
)
from svcserver.kernel.settings import port as port_number


def per_second(text: str) -> Rate:
    """Parse a rate, which is written ``<burst>,<per second>``."""
    try:
        burst, rate = (float(part) for part in text.split(","))
    except ValueError:
        burst = rate = 0.0
    if not (1 <= burst < 1e6 and 0 < rate < 1e6):
        raise ValueError(
            "must be BURST,RATE, such as 20,5, with BURST at least 1 and RATE (per second) above 0"
        )
    return Rate(burst, rate * 60)


def domain(text: str) -> str:
    """Parse a host name, with or without a port."""
    if not is_domain(text.strip()):
        raise ValueError("must be a host name or host:port")
    return text.strip()


@frozen
class ChatSettings:
    """The chat's settings; each attribute is an environment variable of the metagame."""

    chat: bool = env("CHAT", zero_or_one(), default=False, bad=Bad.WARN)
    port: int = env("CHAT_PORT", port_number, default=61099)
    host: str = env("CHAT_BIND_HOST", one_of("127.0.0.1", "::1"), default="127.0.0.1")
    nick_check: str = env(
        "CHAT_NICK_CHECK", one_of("enforce", "log"), default="enforce", bad=Bad.WARN
    )
    presence: bool = env("CHAT_PRESENCE", off_unless_1, default=False)
    message_rate: Rate = env("CHAT_MESSAGE_RATE", per_second, default=Rate(8, 60), bad=Bad.WARN)
    max_connections: int = env(
        "CHAT_MAX_CONNECTIONS", whole(1, 100_000), default=2048, bad=Bad.WARN
    )
    trace: bool = env("CHAT_TRACE", off_unless_1, default=False)
    domain: str = env("CHAT_DOMAIN", domain, default="svc.local", bad=Bad.WARN)
    gateway_secret: Secret | None = env("GATEWAY_SECRET", secret, default=None)


def check(settings: ChatSettings) -> None:
    """Check that the settings fit together; raises BadSetting."""
    if settings.gateway_secret is not None and settings.host != "127.0.0.1":
        raise BadSetting("CHAT_BIND_HOST must be 127.0.0.1 when GATEWAY_SECRET is set")
