"""The key under which limits count an address: for IPv6 its network, which one client owns."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=8192)
def network_of(address: str, bits: int = 64) -> str:
    """``2001:db8::/64`` of an IPv6 address, an IPv4 address (also mapped) as it is.

    Text that is no address is returned unchanged.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    rest = 128 - bits
    return f"{ipaddress.IPv6Address(int(found) >> rest << rest)}/{bits}"
