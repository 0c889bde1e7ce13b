"""Parses LIVE_URL, the address of the live-state engine, and reads certificates for TLS."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from attrs import field, frozen

from svcserver.kernel.digits import whole_in

SCHEMES = {"valkey": False, "redis": False, "valkeys": True, "rediss": True}  # with TLS?


@frozen
class EngineAddress:
    """The parsed LIVE_URL, the live-state engine's address; ``repr`` hides the credentials."""

    host: str
    port: int
    db: int = 0
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    tls: bool = False
    ca: Path | None = None  # PEM file with CA certificates; None: the system's

    @classmethod
    def parse(cls, url: str) -> EngineAddress:
        """Parse ``valkey://[user:password@]host:port[/db]``; raises ValueError.

        ``valkeys://`` (TLS) may end with ``?ca=`` and the absolute path of a PEM file.
        """
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not parts.hostname or parts.fragment:
            raise ValueError("must be `memory:`, valkey://host:port or valkeys://host:port")
        tls = SCHEMES[parts.scheme]
        ca = _authority(parts.query, tls=tls) if parts.query else None
        db = whole_in(parts.path.strip("/") or "0", 5)
        if db is None:
            raise ValueError("must end with the number of a database, as in valkey://host:6379/0")
        try:
            port = parts.port
        except ValueError:  # the error's text could contain a part of a password
            raise ValueError("must have a port from 1 to 65535 after the host") from None
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if user and not password:
            raise ValueError("has a user name but no password")
        return cls(parts.hostname, port or 6379, db, user, password, tls=tls, ca=ca)


def _authority(query: str, *, tls: bool) -> Path:
    match parse_qsl(query, keep_blank_values=True):
        case [("ca", text)] if tls and Path(text).is_absolute():
            return Path(text)
    raise ValueError("may have only the option ?ca=/path/to/ca.pem, and only with valkeys://")


def authorities(path: Path) -> list[str]:
    """Return the certificates in a PEM file; raises ValueError."""
    try:
        text = path.read_text(encoding="ascii")
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError):  # not ASCII, or without a certificate
        raise ValueError(f"names a CA file without a PEM certificate: {path}") from None
    except OSError as error:
        raise ValueError(f"names a CA file that cannot be read: {path}: {error.strerror}") from None
    end = "-----END CERTIFICATE-----"
    return [certificate + end for certificate in text.split(end)[:-1]]
