"""One log line per request. Spec: 1 §4 convention 6, §5.8."""

from __future__ import annotations

from attrs import frozen
from twisted.logger import Logger

from svcserver.web.front import Done
from svcserver.web.redact import safe_path

log = Logger()


@frozen
class RequestLog:
    """An observer of the front door; ``on`` is LOG_REQUESTS."""

    on: bool = True

    def __call__(self, done: Done) -> None:
        """Write the line; a path no row knows is written even with LOG_REQUESTS=0."""
        path = safe_path(done.request.path, done.row)
        if done.row is None and done.status == 404:
            log.info("unstubbed {method} {path}", method=done.request.method, path=path)
            if path.lower().startswith("/progression"):
                log.warn("unanswered {method} {path}", method=done.request.method, path=path)
        if not self.on:
            return
        log.info(
            "{method} {path} gs={gs} {status} {ms}ms{via}",
            method=done.request.method,
            path=path,
            gs=int(done.request.has_header(b"x-svc-gameserver-apikey")),
            status=done.status if not done.aborted else "aborted",
            ms=round(done.seconds * 1000, 1),
            via=_via(done),
        )


def _via(done: Done) -> str:
    return f" via=gateway ip={done.address}" if done.address else ""
