"""The fleet's listener: HTTP over TLS, only for clients with a node's certificate."""

from typing import Any

from twisted.application.service import IService, Service
from twisted.internet.interfaces import IHandshakeListener, IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from svcserver.edge.certificate import BadCertificate
from svcserver.edge.nodes import BadFleet, FleetFolder
from svcserver.edge.tls import TlsFactory, node_context, peer_fingerprint
from svcserver.http.peers import peer_of
from svcserver.kernel.counters import Counters
from svcserver.kernel.every import Every
from svcserver.kernel.foreign_text import failed_start
from svcserver.kernel.headers import GATEWAY
from svcserver.kernel.throttle import Throttle
from svcserver.metagame.settings import MetagameSettings
from svcserver.web.channel import WebChannel
from svcserver.web.front import FrontDoor
from svcserver.web.serving import Listening
from svcserver.web.site import HttpFactory

log = Logger()

HANDSHAKE_S = 10.0
MAX_CONNECTIONS = 1_024
MAX_PER_NODE = 256  # connections, so that one node cannot use up all connections
LOOK_S = 0.5  # seconds between two looks at the list of nodes
EVERYWHERE = "0.0.0.0"  # noqa: S104 - clients prove themselves with a certificate


@implementer(IHandshakeListener)
class NodeChannel(WebChannel):
    """The connection of a node; it carries no request before the handshake."""

    secure = True
    fingerprint = ""

    def connectionMade(self) -> None:
        super().connectionMade()
        self.within(HANDSHAKE_S, self.cut)

    def handshakeCompleted(self) -> None:
        """Read the client's certificate, which OpenSSL has checked."""
        self.fingerprint = peer_fingerprint(self.transport)
        if not self.factory.node_of(self.fingerprint):
            text = "no node of the fleet has the certificate of {peer}: its connection is closed"
            log.warn(text, peer=self.peer)
            self.cut()
        elif not self.closing:
            self.next_request()

    def start_request(self, raw: bytes) -> None:
        self.node = self.factory.node_of(self.fingerprint)
        super().start_request(raw)


class NodeFactory(HttpFactory):
    """The Twisted factory that makes a ``NodeChannel`` for each connection."""

    def __init__(
        self, front: FrontDoor, clock: IReactorTime, fleet: FleetFolder, counters: Counters
    ) -> None:
        super().__init__(front, clock, counters, proxy_headers=(GATEWAY,))
        self.fleet = fleet
        self._faults = Throttle()

    def buildProtocol(self, addr: Any) -> NodeChannel:
        return NodeChannel(self, peer_of(addr))

    def node_of(self, fingerprint: str) -> str:
        """Return the id of the node with this certificate, or "" if no node has it."""
        try:
            node = self.fleet.by_fingerprint().get(fingerprint)
        except BadFleet as error:
            if self._faults.due("", self.clock.seconds()):
                log.error("nodes cannot connect: {why}", why=str(error))
            return ""
        return "" if node is None else node.id

    def cut_revoked(self) -> None:
        """Abort the connections of nodes that are revoked."""
        for channel in list(self.channels):
            fingerprint = getattr(channel, "fingerprint", "")
            if fingerprint and not self.node_of(fingerprint):
                log.info(
                    "the certificate of the node at {peer} is no longer accepted: its connection "
                    "is closed",
                    peer=channel.peer,
                )
                channel.cut()


class FleetListening(Listening):
    """The listener on FLEET_PORT, which all workers share."""

    def privilegedStartService(self) -> None:
        Service.privilegedStartService(self)
        self._bind(self.port, self._among_others)


def fleet_listener(
    reactor: Any, settings: MetagameSettings, port: int, factory: NodeFactory
) -> tuple[IService, ...]:
    """Return the services that listen for nodes and cut the connections of revoked nodes.

    Exits with an error message if the fleet's certificates are unusable.
    """

    def admit(addr: Any) -> bool:
        peer = peer_of(addr)
        if peer not in settings.gameserver_allow_from or len(factory.channels) >= MAX_CONNECTIONS:
            return False
        return sum(channel.peer == peer for channel in factory.channels) < MAX_PER_NODE

    try:
        fleet = factory.fleet
        context = node_context(fleet.server(), fleet.authority().certificate)
    except (BadFleet, BadCertificate) as error:
        raise failed_start(f"svc-metagame: FLEET_PORT is set, but {error}") from None
    listening = FleetListening(
        reactor,
        "metagame-fleet",
        port,
        EVERYWHERE,
        factory,
        variables="FLEET_PORT",
        component="metagame",
        wrapped=TlsFactory(context, factory, admit, reactor),
    )
    return listening, Every(reactor, LOOK_S, factory.cut_revoked, "the check for revoked nodes")
