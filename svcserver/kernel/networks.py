"""Under which name an address is counted: whoever has one IPv6 address has its whole network."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=8192)
def network_of(address: str, bits: int = 64) -> str:
    """An IPv4 address as it is, an IPv6 one as the network of its first ``bits`` bits.

    What is no address at all is its own name.
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
