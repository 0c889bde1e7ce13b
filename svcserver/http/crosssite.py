"""Whether a request on this machine comes from a web page of somebody else. Pure.

A page that is open in a browser on this machine can reach what listens on loopback, and what a
service gives to loopback it would give to the page. Three header fields tell: the Host (a page
whose name was pointed at 127.0.0.1 still sends that name), the Origin, and Sec-Fetch-Site.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

LOOPBACK_HOST = re.compile(rb"(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?", re.I)
LOOPBACK_ORIGIN = re.compile(rb"https?://" + LOOPBACK_HOST.pattern, re.I)
_HOST = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[^\[\]:/@?#\s]+))(?::[0-9]{1,5})?")
_LOCAL_NAMES = frozenset(["localhost"])
HOSTS_FILE = Path("/etc/hosts")
LONGEST_HOSTS_FILE = 64 * 1024  # bytes that are looked at


def foreign(
    method: str,
    peer: str,
    *,
    hosts: Sequence[bytes],
    origins: Sequence[bytes],
    sites: Sequence[bytes],
    modes: Sequence[bytes] = (),
    destinations: Sequence[bytes] = (),
) -> str:
    """Which field gives a page away (``host``, ``origin``, ``sec_fetch``), or an empty text.

    Everything is as sent: the values of Host, Origin, Sec-Fetch-Site, -Mode and -Dest. What is
    no browser sends none of the latter four. A link to us may stand on any page: whoever
    follows it reads the answer, and the page does not.
    """
    if len(hosts) > 1 or (is_loopback(peer) and not all(map(names_this_machine, hosts))):
        return "host"
    if not all(_is_own(origin, hosts) for origin in origins):
        return "origin"
    followed = (
        method in ("GET", "HEAD") and modes == [b"navigate"] and destinations == [b"document"]
    )
    if not followed and not all(site in (b"same-origin", b"none") for site in sites):
        return "sec_fetch"
    return ""


def _is_own(origin: bytes, hosts: Sequence[bytes]) -> bool:
    """Whether the origin is the service itself, or another program on this machine."""
    if hosts and LOOPBACK_HOST.fullmatch(hosts[0]) and LOOPBACK_ORIGIN.fullmatch(origin):
        return True
    scheme, _, place = origin.lower().partition(b"://")
    return scheme in (b"http", b"https") and [place] == [host.lower() for host in hosts]


@lru_cache(maxsize=64)
def names_this_machine(host: bytes) -> bool:
    """Whether a Host field can only mean this machine.

    Any address does: a page's own name may be pointed anywhere, but an address is no name. Of
    names only those that nobody else can have: localhost, the machine's own, and the aliases
    of its own name in /etc/hosts.
    """
    found = _HOST.fullmatch(host.decode("latin-1").lower())
    if found is None:
        return False
    name = (found["six"] or found["name"]).removesuffix(".")
    return _is_address(name) or name in _LOCAL_NAMES | own_names()


@lru_cache(maxsize=1)
def own_names() -> frozenset[str]:
    """This machine's host names, read once."""
    name = socket.gethostname().lower()
    try:
        with HOSTS_FILE.open("rb") as file:
            text = file.read(LONGEST_HOSTS_FILE).decode("utf-8", "replace")
    except OSError:  # not every system has the file there
        text = ""
    return frozenset([name, name + ".local", *aliases(name, text)]) if name else frozenset()


def aliases(name: str, hosts_file: str) -> frozenset[str]:
    """The other names that a hosts file gives this machine, such as ``name.example.org``.

    Only lines with the machine's name count: the file may also point strangers' names at
    127.0.0.1 in order to block them.
    """
    found: set[str] = set()
    for line in hosts_file.lower().splitlines():
        _, *names = line.partition("#")[0].split() or [""]
        if name in names and name not in _LOCAL_NAMES:
            found.update(names)
    return frozenset(found)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=64)
def is_loopback(peer: str) -> bool:
    """Whether a caller is on this machine."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
