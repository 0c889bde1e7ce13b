"""``svc-gateway``: the public HTTPS endpoint."""

import os
import signal
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from attrs import define, field
from treq.client import HTTPClient
from twisted.application.service import IService, Service
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.client import Agent, HTTPConnectionPool

from svcserver.edge.allowlist_client import CACHED_S
from svcserver.edge.certificate import BadCertificate, Pair, check_pair, read_pair
from svcserver.edge.connections import ChannelFactory
from svcserver.edge.tls import TlsFactory, server_context
from svcserver.edge.upstream import Pool, plain
from svcserver.gateway.feed import AllowlistFeed
from svcserver.gateway.join_page import JoinPages, LauncherCheck, join_pages
from svcserver.gateway.limits import ConnectionCounts, NetworkBuckets, Spending
from svcserver.gateway.policy import Route
from svcserver.gateway.proxy_policy import Gateway
from svcserver.gateway.settings import AllowlistClientSettings, GatewaySettings
from svcserver.gateway.upstreams import Upstreams, make_upstreams
from svcserver.http.peers import peer_of
from svcserver.kernel.counters import Counters, Figure
from svcserver.kernel.foreign_text import failed_start
from svcserver.kernel.monotonic import monotonic_reactor
from svcserver.kernel.settings import BadSetting, load
from svcserver.web.logs import json_lines
from svcserver.web.metrics import show_figures
from svcserver.web.options import ServiceOptions
from svcserver.web.serving import StartWarnings, TopService

log = Logger()
NAME = "svc-gateway"


class Options(ServiceOptions):
    """The command line: ``--env-file`` only; all settings come from the environment."""

    name, shape, keeps_rights = NAME, GatewaySettings, True
    settings: GatewaySettings
    allowlist: AllowlistClientSettings | None
    pair: Pair
    longdesc = 'The single public HTTPS entry. Settings: the page "Configuration".'

    def check(self) -> list[str]:
        """Read the allowlist feed's settings and the certificate; return warnings about them."""
        self.allowlist = None
        if self.settings.allowlist:
            self.allowlist, warnings = load(AllowlistClientSettings, self.environ)
        else:
            warnings = ["GATEWAY_ALLOWLIST is 0: no UDP game port is opened for any player"]
        try:
            self.pair = read_pair(self.settings.certificate, self.settings.key)
            warnings += check_pair(self.pair, datetime.now(UTC))
            server_context(self.pair)  # so that TLS rejects a bad pair now
        except BadCertificate as error:
            variable = "GATEWAY_KEY" if error.what == "key" else "GATEWAY_CERT"
            raise BadSetting(f"{variable}: the {error.what} {error}") from None
        return warnings


def makeService(options: Options, reactor: Any = None) -> TopService:
    """Return the service of ``twistd svc-gateway``: the TLS port and the upstream monitoring.

    Tests pass a ``reactor`` with their own clock.
    """
    real = reactor is None
    if reactor is None:
        reactor = monotonic_reactor()
    settings = options.settings
    lines = json_lines(settings.log_level, reactor)
    top = TopService(lines)
    feed = None
    if options.allowlist is not None:
        pool = HTTPConnectionPool(reactor)
        pool.cachedConnectionTimeout = CACHED_S
        http = HTTPClient(Agent(reactor, connectTimeout=2, pool=pool))
        feed = make_feed(options.allowlist, settings.refresh_s, http, reactor, top.counters)
    upstreams = upstreams_of(settings, reactor)
    policy = make_policy(
        settings,
        feed,
        reactor,
        upstreams,
        say=partial(lines.write_info_line, Gateway.__module__),
        counters=top.counters,
    )
    listener = TlsListener(reactor, policy, options.pair, settings, upstreams)
    StartWarnings(options.warnings).setServiceParent(top)
    listener.setServiceParent(top)
    upstreams.watch.setServiceParent(top)
    if settings.join_page:
        launcher_check(settings, policy, reactor).setServiceParent(top)
    parts, shared = sharing(settings, policy, reactor)
    for part in parts:
        part.setServiceParent(top)
    shown = figures(policy) | shared
    show_figures(top, reactor, "gateway", settings.metrics_port, shown)
    if real:
        CutOnSecondSignal(reactor, listener).setServiceParent(top)
    return top


def figures(policy: Gateway) -> dict[str, Figure]:
    """Return the metrics that METRICS_PORT serves, by name; each scrape reads their values."""
    return {
        "svc_gateway_connections": Figure(
            "Open client connections.", lambda: float(policy.counts.total)
        ),
        "svc_gateway_requests": Figure(
            "Requests that got an answer.", lambda: float(policy.answered), counts=True
        ),
        "svc_gateway_reports_waiting": Figure(
            "Players' addresses that the allowlist helper has not confirmed yet.",
            lambda: float(policy.feed.waiting if policy.feed is not None else 0),
        ),
    }


def sharing(
    settings: GatewaySettings, policy: Gateway, reactor: Any
) -> tuple[tuple[IService, ...], dict[str, Figure]]:
    """Return the services that share limits with other gateways, and their metrics.

    Without LIVE_URL, there are neither services nor metrics.
    """
    if settings.live_url.in_memory:
        return (), {}
    from svcserver.gateway.sharing import Sharing  # most hosts have one gateway

    board, parts = settings.live_url.board(reactor.seconds, reactor)
    buckets = {
        str(bucket): buckets_of_kind for bucket, buckets_of_kind in policy.spending.buckets.items()
    }
    shared = Sharing(reactor, board, {**buckets, "connect": policy.counts.connects})
    return (*parts, shared), shared.figures()


def launcher_check(settings: GatewaySettings, policy: Gateway, reactor: Any) -> LauncherCheck:
    """Return the service that updates the launcher link of the page /join."""

    def show(pages: JoinPages) -> None:
        policy.pages = pages

    address = settings.content[0]
    return LauncherCheck(reactor, Pool(reactor, plain(reactor, address.host, address.port)), show)


def make_feed(
    settings: AllowlistClientSettings, refresh_s: float, http: Any, clock: Any, counters: Counters
) -> AllowlistFeed:
    """Return the feed that reports players' addresses to all allowlist helpers."""
    urls = [address.url() for address in (settings.url, *settings.more)]
    return AllowlistFeed(http, clock, urls, settings.secret, refresh_s, counters)


def upstreams_of(settings: GatewaySettings, reactor: Any) -> Upstreams:
    """Return the upstreams of all routes, with their connection pools."""
    addresses = {
        Route.METAGAME: settings.metagame,
        Route.CONTENT: settings.content,
        Route.WS: settings.chat,
    }
    return make_upstreams(reactor, addresses, settings.park_s)


def make_policy(
    settings: GatewaySettings,
    feed: AllowlistFeed | None,
    reactor: Any,
    upstreams: Upstreams,
    *,
    say: Callable[[str, str], None],
    counters: Counters,
) -> Gateway:
    """Return the gateway's policy; ``say`` writes a request's log line."""
    return Gateway(
        reactor,
        settings.limits(),
        Spending(settings.rates()),
        ConnectionCounts(
            settings.max_connections,
            settings.max_per_address,
            NetworkBuckets(settings.connect),
        ),
        upstreams.by_route,
        settings.secret,
        feed,
        say,
        counters=counters,
        pages=join_pages() if settings.join_page else None,
    )


def passed_socket(reactor: Any) -> Any:
    """Return an endpoint on the socket that systemd opened for us, or None; raises OSError.

    The address family is read from the socket. For ``ListenStream=443``, for example, systemd opens
    an IPv6 socket that accepts IPv4 too. With the wrong family, clients' addresses would be wrong.
    """
    try:
        endpoint: Any = serverFromString(reactor, "systemd:domain=INET:index=0")
    except IndexError:
        return None
    with socket.socket(fileno=os.dup(endpoint.fileno)) as passed:
        if passed.family not in (socket.AF_INET, socket.AF_INET6):
            raise OSError("the socket that systemd passed is not a TCP socket")
        endpoint.addressFamily = passed.family
    return endpoint


@define(eq=False, slots=False)
class TlsListener(Service):
    """The gateway's TLS listener."""

    reactor: Any
    policy: Gateway
    pair: Pair
    settings: GatewaySettings
    upstreams: Upstreams
    factory: ChannelFactory = field(init=False)
    _port: Any = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.factory = ChannelFactory(self.reactor, self.policy, secure=True)
        self.factory.on_lost = self.policy.left
        self.policy.counts.make_room = self._make_room
        self.factory.sweeps += [pool.sweep for pool in self.upstreams.pools]

    def _make_room(self) -> bool:
        return self.policy.evicted(self.factory.evict(self.policy.counts.beside))

    def startService(self) -> None:
        """Start listening; if that fails, end the process."""
        Service.startService(self)
        secured = TlsFactory(
            server_context(self.pair),
            self.factory,
            lambda addr: self.policy.admit(peer_of(addr)),
            self.reactor,
        )
        host, port = self.settings.bind, self.settings.port
        try:
            self._port = self._listen(secured, host, port)
        except (CannotListenError, OSError) as error:
            reason = getattr(error, "socketError", error)
            raise failed_start(
                f"{NAME}: GATEWAY_PORT: cannot listen on {host}:{port}: {reason}; "
                "choose another GATEWAY_PORT or GATEWAY_BIND, or stop the program that uses the "
                "port. A port below 1024 needs CAP_NET_BIND_SERVICE or a systemd socket"
            ) from None
        log.info("gateway ready", address=self._address(), fingerprint=self.pair.fingerprint)

    def _address(self) -> str:
        """Return the listening address.

        If systemd opened the socket, the address can differ from the settings.
        """
        at = self._port.getHost()
        return f"[{at.host}]:{at.port}" if ":" in at.host else f"{at.host}:{at.port}"

    def _listen(self, secured: Any, host: str, port: int) -> Any:
        passed = passed_socket(self.reactor)
        if passed is None:
            return self.reactor.listenTCP(port, secured, backlog=1024, interface=host)
        outcome: list[Any] = []
        passed.listen(secured).addBoth(outcome.append)  # an open socket is adopted immediately
        if isinstance(outcome[0], Failure):
            outcome[0].raiseException()
        return outcome[0]

    def stopService(self) -> Any:
        """Accept no new connection, close tunnels, and abort answers that exceed the grace time."""
        Service.stopService(self)
        waits: list[Deferred[Any]] = []
        if self._port is not None:
            closed = self._port.stopListening()
            if isinstance(closed, Deferred):
                waits.append(closed)
        waits.append(self.factory.stop(self.settings.grace_s))
        closed_all = DeferredList(waits, consumeErrors=True)
        return closed_all.addCallback(self._close)

    def _close(self, result: Any) -> Any:
        self.upstreams.close()
        return self.policy.feed.stop() if self.policy.feed is not None else None


@define(eq=False, slots=False)
class CutOnSecondSignal(Service):
    """The signal handler that cuts every connection if a second signal comes during the stop."""

    reactor: Any
    listener: TlsListener

    def stopService(self) -> None:
        Service.stopService(self)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._again)

    def _again(self, *_: Any) -> None:
        self.reactor.callFromThread(self.listener.factory.cut)
