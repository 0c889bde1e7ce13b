"""The readers for settings that give the URL of a service on this machine."""

import ipaddress
from urllib.parse import urlsplit

from attrs import frozen

from svcserver.kernel.settings import comma_list

WRONG_URL = (
    "must be an http:// URL with a loopback address, a port and no path, such as "
    "http://127.0.0.1:61000"
)


@frozen
class Address:
    """The host and port of a service on this machine."""

    host: str
    port: int

    def url(self) -> str:
        """Return ``http://HOST:PORT``, with brackets around an IPv6 address."""
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self}"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def local_url(text: str) -> Address:
    """Read an ``http://`` URL that has a loopback address or localhost, a port, and no path."""
    wrong = ValueError(WRONG_URL)
    try:
        parts = urlsplit(text.strip())
        host, number = parts.hostname or "", parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme != "http" or parts.path not in ("", "/") or not number:
        raise wrong
    if parts.query or parts.fragment or parts.username is not None or parts.password is not None:
        raise wrong
    if host == "localhost":
        return Address("127.0.0.1", number)
    try:
        if not ipaddress.ip_address(host).is_loopback:
            raise wrong
    except ValueError:
        raise wrong from None
    return Address(host, number)


def local_urls(text: str) -> tuple[Address, ...]:
    """Read a comma-separated list of ``http://`` URLs of this machine."""
    return tuple(local_url(part) for part in comma_list(text))
