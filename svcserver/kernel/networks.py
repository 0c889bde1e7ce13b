"""The network to which a limit applies: an IPv6 address's /64, or an IPv4 address itself."""

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=8192)
def network_of(address: str, bits: int = 64) -> str:
    """Return the network of an IPv6 address, such as ``2001:db8::/64``, or an IPv4 address itself.

    An IPv4-mapped IPv6 address counts as IPv4. Text that is not an address is returned unchanged.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    rest = 128 - bits
    return f"{ipaddress.IPv6Address(int(parsed) >> rest << rest)}/{bits}"
