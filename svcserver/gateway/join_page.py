"""The public page that explains how to play on this host; it contains no secret.

The page exists only with GATEWAY_JOIN_PAGE=1. It links to the launcher files that the content
server offers; the gateway checks every ``CHECK_EVERY_S`` seconds which files these are. A browser
on Windows gets the link to the Windows program first.
"""

import base64
import hashlib
from collections.abc import Callable, Collection, Sequence
from importlib.resources import files
from typing import Any

from attrs import define, field, frozen
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.defer import TimeoutError as TimedOut
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.edge.joining import LAUNCHER_FILES, LAUNCHER_PATH
from svcserver.edge.question import request_status
from svcserver.edge.upstream import Pool
from svcserver.edge.verdicts import ProxyPage, Unreachable
from svcserver.kernel.every import Every

log = Logger()

PATH = "/join"
CHECK_EVERY_S = 10.0
PATIENCE_S = 2.0  # the timeout for an answer
_QUESTION = f"HEAD {LAUNCHER_PATH}{{}} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_PLACES = ("first", "second")


@frozen
class JoinPages:
    """The page for browsers on Windows, and the page for all other browsers."""

    windows: ProxyPage
    others: ProxyPage

    def page_for(self, agents: Sequence[bytes]) -> ProxyPage:
        """Return the page for a request with these User-Agent fields."""
        return self.windows if any(b"Windows NT" in agent for agent in agents) else self.others


def join_pages(offered: Collection[str] = ()) -> JoinPages:
    """Return the pages with links to the launcher files whose names are in ``offered``."""
    return JoinPages(_page(offered, on_windows=True), _page(offered, on_windows=False))


def _page(offered: Collection[str], *, on_windows: bool) -> ProxyPage:
    """Return a page with its headers; the page may load nothing but its own style sheet.

    The first link leads to the file that suits the visitor's system.
    """
    order = [name for name in LAUNCHER_FILES if name in offered]
    if not on_windows:
        order.reverse()
    parts = {
        f"{name.rpartition('.')[2]}-{place}" for name, place in zip(order, _PLACES, strict=False)
    }
    parts.add("some" if order else "none")
    raw = files("svcserver.gateway").joinpath("static", "join.html").read_bytes()
    content = _with(raw, parts)
    style = content.partition(b"<style>")[2].partition(b"</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'"
    lines = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": f"{policy}; base-uri 'none'; form-action 'none'",
        "Cache-Control": "no-cache",
        "Vary": "User-Agent",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
    return ProxyPage(
        content, "".join(f"{name}: {text}\r\n" for name, text in lines.items()).encode()
    )


def _with(raw: bytes, names: Collection[str]) -> bytes:
    """Return the page with only those conditional parts that ``names`` lists."""
    before, *parts = raw.split(b"<!-- if ")
    content = [before]
    for part in parts:
        name, _, rest = part.partition(b" -->")
        text, _, after = rest.partition(b"<!-- end -->")
        content += [text if name.decode() in names else b"", after]
    return b"".join(content)


@define(eq=False, slots=False)
class LauncherCheck(Service):
    """The service that keeps the join page's links to the launcher files up to date.

    If the content server does not answer, for example during a restart, the page stays unchanged.
    """

    clock: IReactorTime
    pool: Pool  # to the content server
    show: Callable[[JoinPages], None]
    _offered: frozenset[str] | None = field(default=None, init=False)
    _checking: Deferred[Any] | None = field(default=None, init=False)
    _rounds: Every = field(init=False)

    def __attrs_post_init__(self) -> None:
        what = "the check for the launcher on the content server"
        self._rounds = Every(self.clock, CHECK_EVERY_S, self.check, what, at_once=True)

    def startService(self) -> None:
        Service.startService(self)
        self._rounds.startService()

    def stopService(self) -> None:
        Service.stopService(self)
        self._rounds.stopService()
        if self._checking is not None:
            self._checking.cancel()
        self.pool.close()

    def check(self) -> Deferred[Any]:
        """Ask the content server which launcher files it has; the Deferred fires afterwards."""
        self._checking = Deferred.fromCoroutine(self._list_files())
        return self._checking.addCallbacks(self._show_if_changed, self._not_answered)

    async def _list_files(self) -> frozenset[str]:
        """Return the names of the launcher files that the content server has."""
        offered = set()
        for name in LAUNCHER_FILES:
            question = _QUESTION.format(name).encode()
            if await request_status(self.pool, question, self.clock, PATIENCE_S) == 200:
                offered.add(name)
        return frozenset(offered)

    def _show_if_changed(self, offered: frozenset[str]) -> None:
        if offered != self._offered:
            self._offered = offered
            self.show(join_pages(offered))

    def _not_answered(self, failure: Failure) -> None:
        failure.trap(Unreachable, ConnectError, TimedOut, CancelledError)
        log.debug(
            "the content server cannot be asked whether it offers the launcher: {why}",
            why=failure.value,
        )
