"""The origin of a request: this machine, or a player's address and network. Spec: 1 §5.5."""

import socket
from collections.abc import Callable

from attrs import frozen

from svcserver.http.crosssite import is_loopback
from svcserver.kernel.headers import GATEWAY
from svcserver.kernel.networks import network_of
from svcserver.metagame.settings import MetagameSettings
from svcserver.web.request import HttpRequest


@frozen
class Origin:
    """Decides whether a request is local, and from which address the player sent it."""

    settings: MetagameSettings
    is_own_address: Callable[[str], bool]

    def is_local(self, request: HttpRequest) -> bool:
        """Return whether a request is direct and comes from an address that counts as local.

        This machine's addresses and those in GAMESERVER_ALLOW_FROM count as local. Spec: 1 §5.5.
        """
        # any Host is accepted, because game servers prove themselves with a key
        if request.proxied or request.foreign() not in ("", "host"):
            return False
        if self.settings.fleet_port is None or request.node:  # else a node could avoid its limits
            return request.peer in self.settings.gameserver_allow_from or self.is_this_machine(
                request
            )
        return self.is_this_machine(request)

    def is_this_machine(self, request: HttpRequest) -> bool:
        """True if the peer, which may be a local proxy, has an address of this machine."""
        return is_loopback(request.peer) or self.is_own_address(request.peer)

    def player_address(self, request: HttpRequest) -> str:
        """Return the last X-Forwarded-For entry if the gateway signed the request, else ""."""
        return request.forwarded(self.settings.gateway_secret, GATEWAY)

    def network(self, request: HttpRequest) -> str:
        """Return the player's network (``kernel.networks``), or "" for this machine.

        If the request came through the gateway, the network contains the address that the gateway
        reports. If the request came directly, the network contains the peer's address. If another
        proxy forwarded the request, the result is "".
        """
        address, peer = self.player_address(request), request.peer
        if not address and not request.proxied:
            address = "" if is_loopback(peer) or self.is_own_address(peer) else peer
        return network_of(address) if address else ""


def is_own_address(address: str) -> bool:
    """Return whether the address belongs to this machine.

    The function asks the operating system for the source address of packets to ``address``, but
    sends no packet. It does not try to bind a socket to ``address``, because the system may permit
    that for any address (net.ipv4.ip_nonlocal_bind).
    """
    try:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            own: str = probe.getsockname()[0]
    except OSError:
        return False
    return own.partition("%")[0] == address.partition("%")[0]
