"""``svc-agent``: runs on each node of a fleet, for that node's game servers.

- It listens on 127.0.0.1 and passes the game servers' requests on to the host over mutual TLS.
- It polls the host for players' addresses, for which the node's allowlist helper opens the game
  ports.
- If the node counts as lost (``LostHost``), the agent stops the game servers, because the swarm
  then starts other game servers in their place.
- For the host, it checks whether the node has the game servers' image, and whether datagrams reach
  the game ports.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from attrs import define, field
from treq.client import HTTPClient
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.client import Agent, HTTPConnectionPool
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from svcserver.agent.checks import NodeChecks
from svcserver.agent.containers import Containers
from svcserver.agent.link import HelperClient, HostLink
from svcserver.agent.settings import AgentSettings, credential_of
from svcserver.deploy.docker_api import DockerApi, engine_client
from svcserver.edge.nodes import Credential
from svcserver.edge.tls import PinnedCreator
from svcserver.kernel.counters import Figure
from svcserver.kernel.every import Every
from svcserver.kernel.headers import RELAYED
from svcserver.kernel.monotonic import monotonic_reactor
from svcserver.relay.relaying import RelayService, Target
from svcserver.relay.service import Guarded
from svcserver.web.metrics import show_figures
from svcserver.web.options import ServiceOptions
from svcserver.web.serving import StartWarnings, TopService, top_service

log = Logger()

NAME = "svc-agent"
LOST_S = 30.0
LOOK_S = 1.0
HELPER_LOOK_S = 10.0  # between two looks at the allowlist helper
REFRESH_S = 60.0  # the helper forgets addresses that are not reported again
CONNECT_S = 5.0
ADDED = RELAYED + b": 1\r\n"


class Options(ServiceOptions):
    """The command line: ``--env-file`` only; all settings come from the environment."""

    name, shape = NAME, AgentSettings
    settings: AgentSettings
    credential: Credential
    longdesc = 'Connects a node\'s game servers to their host. Settings: the page "Configuration".'

    def check(self) -> list[str]:
        self.credential = credential_of(self.settings)
        return []


@define(eq=False, slots=False)
class Running(Service):
    """A service that starts an endless coroutine, and cancels it when the service stops."""

    make: Callable[[], Coroutine[Deferred[Any], Any, None]]
    _work: Deferred[None] | None = field(default=None, init=False)

    def startService(self) -> None:
        Service.startService(self)
        self._work = Deferred.fromCoroutine(self.make())
        self._work.addErrback(_ended)

    def stopService(self) -> None:
        Service.stopService(self)
        if self._work is not None:
            self._work.cancel()


def _ended(failure: Failure) -> None:
    if failure.check(CancelledError) is None:
        log.failure("a task of the node agent failed", failure)


@implementer(IAgentEndpointFactory)
@define
class HostEndpoints:
    """The endpoint factory that ignores the URL and always connects to the host."""

    reactor: Any
    credential: Credential
    _creator: PinnedCreator = field(init=False)

    def __attrs_post_init__(self) -> None:
        host = self.credential
        self._creator = PinnedCreator(host.host, host.fingerprint, host.pair)

    def endpointForURI(self, uri: Any) -> Any:
        host = self.credential
        endpoint = HostnameEndpoint(self.reactor, host.host, host.port, timeout=CONNECT_S)
        return wrapClientTLS(self._creator, endpoint)


def host_client(reactor: Any, credential: Credential) -> HTTPClient:
    """Return a treq client for the host's listener."""
    pool = HTTPConnectionPool(reactor)
    return HTTPClient(
        Agent.usingEndpointFactory(reactor, HostEndpoints(reactor, credential), pool=pool)
    )


@define(eq=False)
class LostHost:
    """The guard that stops the node's game servers when the node counts as lost.

    The node counts as lost after ``LOST_S`` seconds in which the host was unreachable or reported
    that the swarm has lost the node.
    """

    clock: Any
    link: HostLink
    stop_all: Callable[[], Coroutine[Deferred[Any], Any, None]]
    is_lost: bool = field(default=False, init=False)

    def stop_if_lost(self) -> Deferred[None] | None:
        """Stop all game servers if the node is lost; called at intervals.

        While the node is lost, each call also stops game servers started since the previous call.
        """
        was_lost = self.is_lost
        self.is_lost = self.clock.seconds() - self.link.contact_at > LOST_S
        if self.is_lost and not was_lost:
            log.error(
                "this machine lost its connection to the host or to the swarm {s} s ago. The "
                "agent stops the game servers on this machine.",
                s=int(LOST_S),
            )
        elif was_lost and not self.is_lost:
            log.info("this machine is connected to the host and the swarm again")
        return Deferred.fromCoroutine(self.stop_all()) if self.is_lost else None


def makeService(options: Options, reactor: Any = None) -> TopService:
    """Return the agent as a service."""
    if reactor is None:
        reactor = monotonic_reactor()
    settings, host = options.settings, options.credential
    top = top_service(reactor, production=True, level=settings.log_level)
    StartWarnings(options.warnings).setServiceParent(top)
    relay = RelayService(
        reactor,
        Target(host.host, host.port, host.fingerprint),
        port=settings.port,
        connect_timeout_s=CONNECT_S,
        counters=top.counters,
        pair=host.pair,
        added=ADDED,
    )
    helper = None
    if settings.allowlist_secret is not None:
        http = HTTPClient(Agent(reactor, connectTimeout=2))
        helper = HelperClient(
            http, reactor, settings.allowlist_url.url(), settings.allowlist_secret
        )
    link = HostLink(host_client(reactor, host), reactor, helper)
    engine = engine_client(reactor, settings.docker, settings.docker_certificates)
    containers = Containers(DockerApi(engine, reactor), reactor)
    watch = LostHost(reactor, link, containers.stop_all)
    changes = Changes(reactor, link)
    for part in (
        Guarded(relay, NAME),
        Running(link.run),
        Running(NodeChecks(reactor, link, containers).run),
        Running(partial(containers.follow, changes.note)),
        Every(reactor, LOOK_S, watch.stop_if_lost, "the check for a lost host"),
        Every(
            reactor,
            HELPER_LOOK_S,
            lambda: Deferred.fromCoroutine(link.read_helper()),
            "the check of the allowlist helper",
        ),
        Every(
            reactor,
            REFRESH_S,
            lambda: Deferred.fromCoroutine(link.refresh()),
            "the report of open addresses",
        ),
    ):
        part.setServiceParent(top)
    figures = {
        "svc_agent_host_lost": Figure(
            "1 while the host is out of reach.", lambda: int(watch.is_lost)
        )
    }
    show_figures(top, reactor, "agent", settings.metrics_port, figures)
    return top


@define(eq=False)
class Changes:
    """The reporter that tells the host when a game server has started or ended."""

    clock: Any
    link: HostLink
    _busy: bool = field(default=False, init=False)
    _again: bool = field(default=False, init=False)

    def note(self) -> None:
        """Report to the host that a game server has started or ended."""
        if self._busy:
            self._again = True
            return
        self._busy, self._again = True, False
        Deferred.fromCoroutine(self.link.report_change()).addBoth(self._reported)

    def _reported(self, result: object) -> None:
        self._busy = False
        if self._again:
            self.note()
