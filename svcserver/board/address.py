"""Where the engine of live state is, as LIVE_URL says it."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from attrs import field, frozen

SCHEMES = {"valkey": False, "redis": False, "valkeys": True, "rediss": True}  # with TLS?


@frozen
class Address:
    """What LIVE_URL says of an engine; the password is in no repr."""

    host: str
    port: int
    db: int = 0
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    tls: bool = False

    @classmethod
    def read(cls, url: str) -> Address:
        """``valkey://[user:password@]host:port[/db]``; raises ValueError with the cure."""
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("must be memory:, valkey://host:port or valkeys://host:port")
        db = parts.path.strip("/") or "0"
        if not (db.isascii() and db.isdigit()):
            raise ValueError("must end with the number of a database, as in valkey://host:6379/0")
        try:
            port = parts.port
        except ValueError:  # whose text would show what stands there, as a part of a password
            raise ValueError("must name a port of 1 to 65535 after the host") from None
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if user and not password:
            raise ValueError("names a user without a password")
        return cls(parts.hostname, port or 6379, int(db), user, password, tls=SCHEMES[parts.scheme])
