"""The public page of a host that explains how to play here; it contains no secret.

The page exists only with GATEWAY_JOIN_PAGE=1, because not every host wants to be found. It links to
the launcher only while the content server offers one, which is checked every ``CHECK_EVERY_S``
seconds.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.defer import TimeoutError as TimedOut
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.edge.joining import LAUNCHER_PATH
from svcserver.edge.question import ask
from svcserver.edge.upstream import Pool
from svcserver.edge.verdicts import Page, Unreachable
from svcserver.kernel.every import Every

log = Logger()

PATH = "/join"
CHECK_EVERY_S = 10.0
PATIENCE_S = 2.0  # the timeout for an answer
_QUESTION = (
    f"HEAD {LAUNCHER_PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
)


def join_page(*, launcher: bool) -> Page:
    """Return the page with its headers; the page may load nothing but its own style sheet.

    ``launcher`` says whether this host offers a launcher.
    """
    raw = files("svcserver.gateway").joinpath("static", "join.html").read_bytes()
    content = _with(raw, launcher=launcher)
    style = content.partition(b"<style>")[2].partition(b"</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'"
    lines = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": f"{policy}; base-uri 'none'; form-action 'none'",
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
    return Page(content, "".join(f"{name}: {text}\r\n" for name, text in lines.items()).encode())


def _with(raw: bytes, *, launcher: bool) -> bytes:
    """Return the page with only those alternative parts that fit ``launcher``."""
    before, *places = raw.split(b"<!-- where there is one -->")
    content = [before]
    for place in places:
        with_launcher, _, rest = place.partition(b"<!-- else -->")
        without_launcher, _, after = rest.partition(b"<!-- end -->")
        content += [with_launcher if launcher else without_launcher, after]
    return b"".join(content)


@define(eq=False, slots=False)
class LauncherCheck(Service):
    """The check that adds the launcher's link while the content server offers the launcher.

    If the content server does not answer, for example during a restart, the page stays unchanged.
    """

    clock: IReactorTime
    pool: Pool  # to the content server
    show: Callable[[Page], None]
    _has: bool | None = field(default=None, init=False)
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
        """Ask the content server; return a Deferred that fires after the check."""
        self._checking = ask(self.pool, _QUESTION, self.clock, PATIENCE_S)
        return self._checking.addCallbacks(
            lambda status: self._show_if_changed(status == 200), self._not_answered
        )

    def _show_if_changed(self, has: bool) -> None:
        if has != self._has:
            self._has = has
            self.show(join_page(launcher=has))

    def _not_answered(self, failure: Failure) -> None:
        failure.trap(Unreachable, ConnectError, TimedOut, CancelledError)
        log.debug(
            "the content server cannot be asked whether it offers the launcher: {why}",
            why=failure.value,
        )
