"""The file that ``?ca=`` of LIVE_URL names: who must have signed the engine's certificate."""

from __future__ import annotations

import ssl
from pathlib import Path

END = "-----END CERTIFICATE-----"


def authorities(path: Path) -> list[str]:
    """Its certificates, PEM each; raises ValueError with the cure."""
    try:
        text = path.read_text(encoding="ascii")
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError):  # no text, or no certificate in it
        raise ValueError(f"names a ca without a certificate in PEM: {path}") from None
    except OSError as why:
        raise ValueError(f"names a ca that cannot be read: {path}: {why.strerror}") from None
    return [one + END for one in text.split(END)[:-1]]
