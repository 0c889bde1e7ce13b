"""Who is at the other end of a connection."""

from __future__ import annotations

from typing import Any


def peer_of(addr: Any) -> str:
    """The client's address as text; an IPv4 address stays one on an IPv6 socket."""
    host = str(getattr(addr, "host", "") or "")
    return host[7:] if host.lower().startswith("::ffff:") and "." in host else host
