"""The addresses that may reach the game ports, with their expiry times.

Spec: 2 §4 Allowlist helper, §8 Allowlist.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from attrs import define, field, frozen

from svcserver.kernel.networks import network_of

Address = IPv4Address | IPv6Address

_CGN = ipaddress.ip_network("100.64.0.0/10")
_THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")
_RFC_1918 = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_UNIQUE_LOCAL = ipaddress.ip_network("fc00::/7")
_GLOBAL_6 = ipaddress.ip_network("2000::/3")
_RANGE = re.compile(r"[/,*-]|\A[A-Za-z]+\Z")
_WIDTHS = (64, 48)  # prefix lengths of the IPv6 networks of a home and of a customer
_LONGEST = 45  # characters of any address


class InvalidIp(ValueError):
    """The error for an invalid or forbidden address; ``reason`` is the code in the answer."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Full(Exception):
    """The error when the allowlist is full."""


def canonical(value: Any, *, allow_private: bool = False) -> str:
    """Return a public address in canonical form; raises InvalidIp."""
    return str(_public(_parse(value), allow_private))


def _parse(value: Any) -> Address:
    if not isinstance(value, str):
        raise InvalidIp("not_a_string")
    if _RANGE.search(value) is not None:
        raise InvalidIp("range_not_allowed")
    if len(value) > _LONGEST or "%" in value:
        raise InvalidIp("not_an_ip")
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        raise InvalidIp("not_an_ip") from None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _public(address: Address, allow_private: bool) -> Address:
    if address.is_unspecified or address in _THIS_NETWORK:
        raise InvalidIp("unspecified")
    if address.is_multicast:
        raise InvalidIp("multicast")
    if _is_private(address):
        if not allow_private:
            raise InvalidIp("private")
    elif isinstance(address, IPv4Address):
        if int(address) >> 28 == 15:  # 240.0.0.0/4, with broadcast
            raise InvalidIp("reserved")
    elif address not in _GLOBAL_6:
        raise InvalidIp("reserved")
    return address


def _is_private(address: Address) -> bool:
    if address.is_loopback or address.is_link_local:
        return True
    networks = (*_RFC_1918, _CGN) if address.version == 4 else (_UNIQUE_LOCAL,)
    return any(address in network for network in networks)


def home(value: Any) -> str:
    """Return an IPv4 address itself, or the /64 network of an IPv6 address; raises InvalidIp.

    ``value`` is an address, or an IPv6 network such as ``2001:db8::/64``.
    """
    text = value.removesuffix("/64") if isinstance(value, str) and ":" in value else value
    return network_of(str(_parse(text)))


def order(ip: str) -> tuple[int, int]:
    """Return the sort key of an address: IPv4 before IPv6, then by number."""
    address = ipaddress.ip_address(ip)
    return address.version, int(address)


@frozen
class OpenAddress:
    """An allowed address; ``expires_at`` is in epoch seconds."""

    ip: str
    expires_at: float


@define
class Entries:
    """The allowed addresses, at most ``limit``; ``report`` allows an address for ``ttl_s`` seconds.

    A client can control a whole IPv6 network, so each network has a share of ``limit``: a sixteenth
    for a /64 network, and a quarter for a /48 network. A share is at least four addresses.
    """

    ttl_s: float = 600.0
    limit: int = 256
    _until: dict[str, float] = field(factory=dict, init=False)

    def displace_for(self, ip: str) -> list[str]:
        """Remove old addresses of the network of ``ip`` until that network may have one more.

        Return the removed addresses.
        """
        gone: list[str] = []
        if ip in self._until or ":" not in ip:
            return gone
        for bits in _WIDTHS:
            mine = network_of(ip, bits)
            near = [known for known in self._until if network_of(known, bits) == mine]
            near.sort(key=self._until.__getitem__)
            for address in near[: max(0, len(near) + 1 - self.share(bits))]:
                del self._until[address]
                gone.append(address)
        return gone

    def share(self, bits: int) -> int:
        """Return how many addresses of a network with this prefix length may be allowed."""
        share = self.limit // 16 if bits == 64 else self.limit // 4
        return min(self.limit, max(4, share))

    def report(self, ip: str, now: float) -> bool:
        """Allow ``ip`` (in canonical form); return True if it was not yet allowed. Raises Full."""
        self.displace_for(ip)
        known = ip in self._until
        if not known and len(self._until) >= self.limit:
            raise Full
        self._until[ip] = now + self.ttl_s
        return not known

    def withdraw(self, network: str) -> list[str]:
        """Remove and return the addresses whose ``home`` is ``network``."""
        gone = [ip for ip in self._until if network_of(ip) == network]
        for ip in gone:
            del self._until[ip]
        return sorted(gone, key=order)

    def expire(self, now: float) -> list[str]:
        """Remove and return the expired addresses."""
        over = [ip for ip, until in self._until.items() if until <= now]
        for ip in over:
            del self._until[ip]
        return sorted(over, key=order)

    def restore(self, saved: Iterable[OpenAddress], now: float, *, allow_private: bool) -> int:
        """Restore saved entries that are still valid; return the number of allowed addresses.

        An entry expires ``ttl_s`` seconds from now at the latest, even if the file has a later
        time.
        """
        for entry in sorted(saved, key=lambda saved_entry: saved_entry.expires_at):
            try:
                ip = canonical(entry.ip, allow_private=allow_private)
            except InvalidIp:
                continue
            until = min(entry.expires_at, now + self.ttl_s)
            if until > now and (ip in self._until or len(self._until) < self.limit):
                self.displace_for(ip)
                self._until[ip] = until
        return len(self._until)

    def addresses(self) -> tuple[str, ...]:
        return tuple(sorted(self._until, key=order))

    def all(self) -> Sequence[OpenAddress]:
        return [OpenAddress(ip, self._until[ip]) for ip in self.addresses()]

    def __len__(self) -> int:
        return len(self._until)
