"""This machine's address in a private overlay network (VPN), for a private host."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import closing

NET = ipaddress.ip_network("100.64.0.0/10")
PROBE = "100.100.100.100"  # inside the network; nothing is sent there
LOOPBACK = "127.0.0.1"


def own_address() -> str | None:
    """This machine's address in 100.64.0.0/10; None when it has none."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as one:
        try:
            one.connect((PROBE, 9))
            found = str(one.getsockname()[0])
        except OSError:
            return None
    return found if is_private(found) and found != LOOPBACK else None


def is_private(address: str) -> bool:
    """Whether a private host may listen there: loopback or the overlay network, IPv4."""
    try:
        found = ipaddress.IPv4Address(address)
    except ValueError:
        return False
    return found.is_loopback or found in NET
