"""This machine's address in a private overlay network (VPN), for a private host."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import closing

NET = ipaddress.ip_network("100.64.0.0/10")
PROBE = "100.100.100.100"  # inside the network; nothing is sent there
LOOPBACK = "127.0.0.1"


def own_address() -> str | None:
    """Return this machine's address in 100.64.0.0/10; None without one."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect((PROBE, 9))
            address = str(probe.getsockname()[0])
        except OSError:
            return None
    return address if is_private(address) and address != LOOPBACK else None


def is_private(address: str) -> bool:
    """Return whether a private host may listen there: IPv4 loopback or overlay network."""
    try:
        parsed = ipaddress.IPv4Address(address)
    except ValueError:
        return False
    return parsed.is_loopback or parsed in NET
