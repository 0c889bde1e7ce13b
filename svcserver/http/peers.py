"""A client's address: the connection's own address, or the address that our own proxy forwards."""

import ipaddress
from collections.abc import Sequence
from typing import Any

from svcserver.http.crosssite import is_loopback
from svcserver.kernel.secrets import Secret


def peer_of(addr: Any) -> str:
    """Return the client's address; an IPv4 address is in IPv4 form even on an IPv6 socket."""
    host = str(getattr(addr, "host", "") or "")
    return host[7:] if host.lower().startswith("::ffff:") and "." in host else host


def forwarded_for(peer: str, forwarded: Sequence[str]) -> str:
    """Return the last entry of X-Forwarded-For if the caller is on loopback, else "".

    Our own proxy wrote the last entry; anybody can send the entries before it.
    """
    if not forwarded or not is_loopback(peer):
        return ""
    try:
        return str(ipaddress.ip_address(forwarded[-1].rpartition(",")[2].strip()))
    except ValueError:
        return ""


def vouched_address(
    peer: str, forwarded: Sequence[str], *, secret: Secret | None, offered: str | None
) -> str:
    """Return the forwarded address if ``offered`` is the secret of our local proxy, else ""."""
    if secret is None or offered is None or not is_loopback(peer) or not secret.matches(offered):
        return ""
    return forwarded_for(peer, forwarded)
