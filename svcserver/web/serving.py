"""The common parts of a service: logging, listening, reporting ``ready``, stopping."""

import gc
import linecache
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define, field
from twisted.application.service import IServiceCollection, MultiService, Service
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.error import CannotListenError
from twisted.logger import ILogObserver, Logger
from twisted.python.components import Componentized

from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.descriptors import raise_file_limit
from svcserver.kernel.every import Every
from svcserver.kernel.foreign_text import failed_start
from svcserver.web.logs import LibraryLogs, LogLines, standard_lines
from svcserver.web.site import HttpFactory

log = Logger()

# New objects before a collection, and collections before one of the next generation. With Python's
# ratio of 10, the longest reactor turn with 200 players takes 60 ms of CPU instead of 20 ms.
GARBAGE = 10_000, 3, 30
BACKLOG = 511  # connections that wait to be accepted
DRAIN_LOOK_S = 0.05  # seconds between two checks for finished requests
DRAIN_S = 10.0  # how long a stopping service lets running requests finish
HAND_OVER_S = 1.0  # how long a stopping service answers on kept-alive connections
NOTICE_S = 0.1  # seconds from the notice to proxies until the ports close


class TopService(MultiService):
    """The top service of a plugin; it gives the application our log observer."""

    def __init__(self, lines: LogLines) -> None:
        super().__init__()
        self.lines = lines
        self.counters = Counters()
        self.counters.watch(Counted.DROPPED_LOG_LINES, "unread", lines.dropped)

    def setServiceParent(self, parent: IServiceCollection) -> None:
        """Give the application our log observer, before ``twistd`` looks for one."""
        if isinstance(parent, Componentized):
            parent.setComponent(ILogObserver, self.lines)
        super().setServiceParent(parent)

    def startService(self) -> None:
        """Raise the limit of open files, start the parts, and exempt their objects from GC."""
        raise_file_limit()
        super().startService()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GARBAGE)

    def stopService(self) -> Any:
        stopped: Any = super().stopService()
        if isinstance(stopped, Deferred):
            stopped.addBoth(self._last_words)
        return stopped

    def _last_words(self, result: Any) -> Any:
        self.lines.end()
        return result


def top_service(
    reactor: Any, *, production: bool = False, level: str = "info", service: str = ""
) -> TopService:
    """Return a top service that logs to standard output."""
    linecache.clearcache()  # attrs left 2 MB there: the source of its generated methods
    LibraryLogs.install()
    lines = standard_lines(production=production, level=level, clock=reactor, service=service)
    return TopService(lines)


class OrderedServices(MultiService):
    """Services that stop one by one, the last service first.

    Each service may use the services before it. A MultiService would stop all at the same time.
    """

    def stopService(self) -> Deferred[None]:
        """Stop each part; if one part fails, the other parts still stop."""
        Service.stopService(self)
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        for part in reversed(list(self)):
            try:
                await maybeDeferred(part.stopService)
            except Exception:
                log.failure("{part} failed to stop", part=type(part).__name__)


class StartWarnings(Service):
    """The service that, at its start, logs the warnings of ``kernel.settings.load``."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def startService(self) -> None:
        super().startService()
        for line in self.lines:
            log.warn("{line}", line=line)


@define(eq=False, slots=False)
class Listening(Service):
    """A service that listens on a TCP port; if the port is taken, a one-line error ends the start.

    The ``ready`` line shows ``name``, for example ``content-metrics``. Errors show ``component``,
    for example ``content``, or else ``name``. ``shared`` is a second port, on which several
    processes listen; the operating system gives each connection to one of them.

    A stop first closes the connections that have carried no request. Through this, the gateway
    notices the stop. The port is closed after ``NOTICE_S``. Requests on the other connections are
    answered until ``HAND_OVER_S`` have passed. Running requests have ``DRAIN_S`` to finish; then
    the remaining connections are cut.
    """

    reactor: Any
    name: str
    port: int
    host: str
    factory: Any
    variables: str = "PORT or BIND_HOST"  # the settings to change when the port is taken
    component: str = ""
    shared: int | None = None
    wrapped: Any = None  # the factory with TLS around it
    _ports: list[Any] = field(factory=list, init=False)

    def privilegedStartService(self) -> None:
        """Bind the ports before any part starts, so that no part logs ``ready`` and then fails."""
        Service.privilegedStartService(self)
        self._bind(self.port, self._alone)
        if self.shared is not None:
            self._bind(self.shared, self._among_others)

    def _bind(self, port: int, listen: Callable[[int], Any]) -> None:
        try:
            self._ports.append(listen(port))
        except (CannotListenError, OSError) as error:
            reason = getattr(error, "socketError", error)
            raise failed_start(
                f"svc-{self.component or self.name}: "
                f"Could not listen on {self.host}:{port}: {reason}; "
                f"change {self.variables}, or stop the program that uses the port"
            ) from None

    def _alone(self, port: int) -> Any:
        return self.reactor.listenTCP(port, self._outer(), backlog=BACKLOG, interface=self.host)

    def _outer(self) -> Any:
        return self.factory if self.wrapped is None else self.wrapped

    def _among_others(self, port: int) -> Any:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listening.setblocking(False)
            listening.bind((self.host, port))
            listening.listen(BACKLOG)
            return self.reactor.adoptStreamPort(listening.fileno(), family, self._outer())

    def startService(self) -> None:
        Service.startService(self)
        log.info("{name} ready on {host}:{port}", name=self.name, host=self.host, port=self.port)

    def stopService(self) -> Any:
        """Accept no new connection; return a Deferred that fires when all requests have ended."""
        Service.stopService(self)
        if not self._ports:
            return succeed(None)
        if not isinstance(self.factory, HttpFactory):
            self._close_ports()
            return succeed(None)
        closed: Deferred[Any] = Deferred()
        self.factory.close_unused()
        self.reactor.callLater(NOTICE_S, self._close, self.reactor.seconds(), closed)
        return closed

    def _close(self, since: float, closed: Deferred[Any]) -> None:
        self._close_ports()
        drain = partial(self._drain, since, closed)
        poll = Every(
            self.reactor, DRAIN_LOOK_S, drain, "waiting for running requests", at_once=True
        )
        closed.addBoth(lambda _: poll.stopService())
        poll.startService()

    def _close_ports(self) -> None:
        for port in self._ports:
            accept = getattr(port, "doRead", None)  # not with every reactor
            if accept is not None:  # closing would reset clients that are not accepted yet
                accept()
            port.stopListening()

    def _drain(self, since: float, closed: Deferred[Any]) -> None:
        waited = self.reactor.seconds() - since
        left = self.factory.close_idle(keep_used=waited < HAND_OVER_S)
        if (not left or waited >= DRAIN_S) and not closed.called:
            closed.callback(None)


@define(eq=False, slots=False)
class CloseOnStop(Service):
    """A service that calls ``close`` when it stops."""

    close: Callable[[], Deferred[Any]]

    def stopService(self) -> Deferred[Any]:
        Service.stopService(self)
        return self.close()
