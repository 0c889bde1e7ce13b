"""The metagame's request log; it marks requests of game servers and warns of missing routes."""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen
from twisted.logger import Logger, LogLevel

from svcserver.http.crosssite import is_loopback
from svcserver.kernel import json
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.headers import ACCOUNT_KEY, GAME_SERVER_KEY
from svcserver.kernel.networks import network_of
from svcserver.kernel.system import epoch
from svcserver.kernel.throttle import LogSampler
from svcserver.kernel.times import iso
from svcserver.metagame.access.staff_sessions import PAGE_HEADER, ticket_of
from svcserver.web.front import FinishedRequest
from svcserver.web.logs import LogLines, line_head
from svcserver.web.routes import logged_path

log = Logger()


# Lines are written directly by the service's writer, because a logger event for each request would
# cost as much time as the reply.
def _no_marks(done: FinishedRequest) -> Mapping[str, int]:
    return {}


def _nobody(done: FinishedRequest) -> str:
    return ""


@frozen
class RequestLog:
    """Logs the HTTP server's requests, if ``on`` is true (LOG_REQUESTS).

    ``mark`` returns fields to add to each log line. ``proxy`` is the name of the proxy in front of
    the metagame. If an unknown path begins with one of ``expected`` (lower case), its request is
    logged as a warning.
    """

    lines: LogLines
    on: bool = True
    wall_clock: Callable[[], float] = epoch
    counters: Counters = field(factory=Counters)
    mark: Callable[[FinishedRequest], Mapping[str, int]] = _no_marks
    who: Callable[[FinishedRequest], str] = _nobody  # the proven account, if any
    page: Callable[[FinishedRequest], str] = _nobody  # identifies the dashboard session
    proxy: str = "proxy"
    expected: tuple[str, ...] = ()
    _refusals: LogSampler = field(factory=LogSampler, init=False)

    def __call__(self, done: FinishedRequest) -> None:
        """Log the request; a request that no route matches is logged even if LOG_REQUESTS=0."""
        request, row = done.request, done.row
        if 400 <= done.status < 500 and not self._keeps(done):
            self.counters.add(Counted.DROPPED_LOG_LINES, "refusals")
            return
        path = logged_path(request.path, row)
        if row is None and done.status == 404:
            log.info("unstubbed {method} {path}", method=request.method, path=path)
            if path.lower().startswith(self.expected):
                log.warn("unanswered {method} {path}", method=request.method, path=path)
        if self.on and self.lines.shows(LogLevel.info):
            self.lines.keep(self._line(done, path))

    def _keeps(self, done: FinishedRequest) -> bool:
        """Return whether to log this refusal.

        Refusals of direct requests from this machine are always logged. If many requests from one
        network are refused, only some of the refusals are logged.
        """
        request = done.request
        if not done.address and is_loopback(request.peer) and not request.proxied:
            return True
        return self._refusals.keeps(network_of(done.address or request.peer), self.wall_clock())

    def _line(self, done: FinishedRequest, path: str) -> str:
        method = done.request.method
        marks = self.mark(done)
        status = "aborted" if done.aborted else done.status
        ms = round(done.seconds * 1000, 1)
        via = f" via={self.proxy} ip={done.address}" if done.address else ""
        marked = ""
        for name, value in marks.items():
            marked += f" {name}={value}"
        omitted = self._refusals.omitted and self._refusals.take_omitted()
        message = f"{method} {path}{marked} {status} {ms}ms"
        who = self.who(done)
        page = self.page(done) if who else ""
        if who:
            message += f" by={who}"
        if page:
            message += f" page={page}"
        if omitted:
            message += f" omitted={omitted}"
        message += via  # last, because the specification puts it at the end of a line
        if not self.lines.as_json:
            return f"{iso(self.wall_clock())} info web.requestlog: {message}\n"
        fields = {
            **line_head(self.wall_clock(), "info", __name__, message),
            "method": method,
            "path": path,
            **marks,
            "status": status,
            "ms": ms,
            "via": via,
            "by": who,
        }
        if page:
            fields["page"] = page
        if omitted:
            fields["omitted"] = omitted
        return json.dump(fields).decode() + "\n"


def request_log(
    lines: LogLines, on: bool, wall_clock: Callable[[], float] = epoch, **more: Any
) -> RequestLog:
    """Return the metagame's request log, which observes its HTTP server."""
    return RequestLog(
        lines,
        on,
        wall_clock,
        expected=("/progression",),
        mark=_by_game_server,
        who=_account,
        page=_page,
        proxy="gateway",
        **more,
    )


def _account(done: FinishedRequest) -> str:
    account: str | None = done.caller.account
    return account or ""


def _page(done: FinishedRequest) -> str:
    """Return the short hash that identifies the request's dashboard session in the log.

    The result is "" if the request has no session, or is authorised by a key.
    """
    request = done.request
    word = request.header(PAGE_HEADER)
    if word is None or request.has_header(ACCOUNT_KEY):
        return ""
    ticket = ticket_of(request.header(b"cookie"), word)
    return "" if ticket is None else ticket.mark


_BY_GAME_SERVER, _BY_OTHERS = {"gs": 1}, {"gs": 0}


def _by_game_server(done: FinishedRequest) -> Mapping[str, int]:
    return _BY_GAME_SERVER if done.request.has_header(GAME_SERVER_KEY) else _BY_OTHERS
