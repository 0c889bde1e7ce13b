"""Checks for requests that another site's web page makes to a service on this machine.

A page that is open in a browser on this machine can reach loopback, and a service that trusts
loopback would trust the page. Three header fields reveal the page. Host has the page's host name,
even if somebody has pointed this name at 127.0.0.1. Origin and Sec-Fetch-Site say that the request
comes from another site.
"""

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
LONGEST_HOSTS_FILE = 64 * 1024  # bytes that are read


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
    """Return the header field that shows that a foreign page sent the request, or "".

    The result is ``host``, ``origin``, ``sec_fetch`` or "". The arguments are the values of Host,
    Origin, Sec-Fetch-Site, Sec-Fetch-Mode and Sec-Fetch-Dest. Following a link from a foreign page
    is allowed: the foreign page cannot read the answer.
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
    """Return whether ``origin`` is the origin of the service itself or of a local program."""
    if hosts and LOOPBACK_HOST.fullmatch(hosts[0]) and LOOPBACK_ORIGIN.fullmatch(origin):
        return True
    scheme, _, place = origin.lower().partition(b"://")
    return scheme in (b"http", b"https") and [place] == [host.lower() for host in hosts]


@lru_cache(maxsize=64)
def names_this_machine(host: bytes) -> bool:
    """Return whether a Host field has a name of this machine, or any IP address.

    Other names are rejected to prevent DNS rebinding. The machine's names are localhost, its host
    name, and the host name's aliases in /etc/hosts.
    """
    match = _HOST.fullmatch(host.decode("latin-1").lower())
    if match is None:
        return False
    name = (match["six"] or match["name"]).removesuffix(".")
    return is_address(name) or name in _LOCAL_NAMES | own_names()


@lru_cache(maxsize=1)
def own_names() -> frozenset[str]:
    """Return this machine's host names; they are read only once."""
    name = socket.gethostname().lower()
    try:
        with HOSTS_FILE.open("rb") as file:
            text = file.read(LONGEST_HOSTS_FILE).decode("utf-8", "replace")
    except OSError:  # not every system has this file
        text = ""
    return frozenset([name, name + ".local", *aliases(name, text)]) if name else frozenset()


def aliases(name: str, hosts_file: str) -> frozenset[str]:
    """Return all names that a hosts file gives this machine, including ``name``.

    Only lines with this machine's own name are used, because the file may also point foreign names
    at 127.0.0.1 in order to block them.
    """
    names_found: set[str] = set()
    for line in hosts_file.lower().splitlines():
        _, *names = line.partition("#")[0].split() or [""]
        if name in names and name not in _LOCAL_NAMES:
            names_found.update(names)
    return frozenset(names_found)


def is_address(text: str) -> bool:
    """Return whether ``text`` is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=64)
def is_loopback(peer: str) -> bool:
    """Return whether the caller's address is a loopback address."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
