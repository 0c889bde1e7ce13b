"""The routes of the content server.

The launcher's two routes exist only if there are launcher files.

The checks run in this order: route, method, path, manifest, key, file state, If-Match,
If-None-Match, range, slots. Spec: 2 §4 Content server, §7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, BinaryIO

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.content import paths
from svcserver.content.branding import URL as BRANDING
from svcserver.content.branding import Branding
from svcserver.content.game_files import ServedGameFiles
from svcserver.content.keycheck import KeyCheck, KeyOwner
from svcserver.content.launcher_files import URL as LAUNCHER
from svcserver.content.launcher_files import LauncherFiles
from svcserver.content.manifest import ManifestEntry, body_etag
from svcserver.content.news import NewsFile
from svcserver.http.crosssite import is_loopback, names_this_machine
from svcserver.kernel import json
from svcserver.kernel.headers import ACCOUNT_KEY, GATEWAY
from svcserver.kernel.refusals import Malformed, Missing, Refusal, TooMany, Unavailable
from svcserver.kernel.secrets import Secret
from svcserver.kernel.system import elapsed
from svcserver.web import ranges
from svcserver.web.coroutines import start_coroutine
from svcserver.web.ranges import Span
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer, logged_path

log = Logger()

FILES = b"/content/v1/files/"
IMAGES = BRANDING.encode()
LAUNCHERS = LAUNCHER.encode() + b"/"
PATHS = (  # of all routes, or their prefixes, longer ones first
    b"/content/v1/manifest",
    b"/content/v1/news",
    FILES,
    IMAGES,
    IMAGES.rstrip(b"/"),
    LAUNCHERS,
    LAUNCHERS.rstrip(b"/"),
)
ALLOW = {"Allow": "GET, HEAD"}
NOSNIFF = {"X-Content-Type-Options": "nosniff"}
PUBLIC = {**NOSNIFF, "Access-Control-Allow-Origin": "*"}
ACCOUNT_RETRY_S = 2
TOTAL_RETRY_S = 10  # Spec: 2 §8 Content streams
MAX_IGNORED_BODY = 64 * 1024  # bytes; no route uses a body, so it is read and dropped


@define
class DownloadSlots:
    """The running downloads, limited by CONTENT_MAX_STREAMS_*."""

    per_account: int = 6
    total: int = 48
    _running: Counter[str] = field(factory=Counter, init=False)
    _all: int = field(default=0, init=False)

    def take(self, account: str) -> DownloadSlot:
        """Return a slot, which the caller must release; raises TooMany or Unavailable."""
        if self._running[account] >= self.per_account:
            raise TooMany(code="too_many_streams", retry_after_s=ACCOUNT_RETRY_S)
        if self._all >= self.total:
            raise Unavailable(code="server_busy", retry_after_s=TOTAL_RETRY_S)
        self._running[account] += 1
        self._all += 1
        return DownloadSlot(self, account)

    def running(self, account: str | None = None) -> int:
        """Return the number of running downloads of one account, or of all accounts."""
        return self._all if account is None else self._running.get(account, 0)

    def free(self, account: str) -> None:
        self._all -= 1
        self._running[account] -= 1
        if self._running[account] <= 0:
            del self._running[account]


@define
class DownloadSlot:
    """A running download, which counts towards the limits until it is released."""

    _slots: DownloadSlots
    _account: str
    _taken: bool = field(default=True, init=False)

    def release(self) -> None:
        """Release the slot; a second call does nothing."""
        if self._taken:
            self._taken = False
            self._slots.free(self._account)


@frozen
class FileAnswer:
    """An answer whose body is a span of an open file.

    The sender calls ``ended(bytes, complete)`` once, and ``spoiled`` if the file has shrunk.
    """

    head: Answer
    file: BinaryIO
    span: Span
    ended: Callable[[int, bool], None] = lambda sent, complete: None
    spoiled: Callable[[], None] = lambda: None


ContentReply = Answer | FileAnswer


Handler = Callable[["ContentHandler", HttpRequest], Coroutine[Any, Any, ContentReply]]


class RangeRefused(Refusal):
    """A 416 answer; ``size`` is the size of the file, in bytes."""

    status = 416

    def __init__(self, size: int) -> None:
        super().__init__(code="range_not_satisfiable")
        self.size = size


def refuse(status: int, code: str, headers: dict[str, str] | None = None) -> Answer:
    """Return the answer ``{"error": code}`` with a header that forbids type sniffing."""
    return Answer(status, json.dump({"error": code}), {**NOSNIFF, **(headers or {})})


@define
class Totals:
    """The numbers of downloads since the server started, for the metrics."""

    complete: int = 0
    cut: int = 0
    bytes: int = 0


@define(eq=False)
class ContentHandler:
    """The handler that decides the answers to requests; ``service.Sender`` sends the files."""

    game_files: ServedGameFiles
    keys: KeyCheck
    slots: DownloadSlots
    branding: Branding
    news: NewsFile
    clock: IReactorTime
    gateway_secret: Secret | None = None
    launcher: LauncherFiles = field(factory=LauncherFiles)
    program: str = ""  # the file of the manifest that starts the game; empty: none
    max_json: int = MAX_IGNORED_BODY
    totals: Totals = field(factory=Totals, init=False)
    _warned_of_secret: bool = field(default=False, init=False)
    _manifest: bytes = field(init=False)
    _manifest_etag: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._manifest = self.game_files.manifest.dump(self.program)
        self._manifest_etag = body_etag(self._manifest)

    # -- the channel's interface -------------------------------------------------

    def early(self, request: HttpRequest, length: int | None) -> Answer | None:
        """Return the refusal that can be given before the body is read, or None."""
        handler, refusal = self._find(request)
        if handler is None:
            return refusal
        return self.page(413, None) if length is not None and length > self.max_json else None

    def page(self, status: int, why: BaseException | None) -> Answer:
        """Return the answer to an error that the HTTP channel detects."""
        return refuse(status, "body_too_large" if status == 413 else "internal_error")

    def answer(self, request: HttpRequest) -> ContentReply | Deferred[ContentReply]:
        """Answer one request; fails only with CancelledError."""
        handler, refusal = self._find(request)
        if handler is None:
            return refusal
        try:
            reply = start_coroutine(handler(self, request))
        except Exception:
            return self._refused(Failure(), request)
        if isinstance(reply, Deferred):
            reply.addErrback(self._refused, request)
        return reply

    def _find(self, request: HttpRequest) -> tuple[Handler | None, Answer]:
        """Return the handler of the request, or None and a refusal.

        Host is checked first, then the route, then the method.
        """
        if self._misnamed(request):
            request.refused = "host"
            return None, refuse(403, "forbidden")
        if not self.launcher.files and request.path.startswith(LAUNCHER.encode()):
            return None, refuse(404, "not_found")
        return _find(request)

    def _misnamed(self, request: HttpRequest) -> bool:
        """Return whether a loopback request has another site's Host, as in a DNS rebinding attack.

        Requests through the gateway have the host's public name. Only the gateway's secret proves
        that a request came through the gateway, because a web page can send any proxy header.
        If no secret is set, every Host is accepted. Even then, a web page can read only public
        content, because it has no account key.
        """
        if self.gateway_secret is None:
            return False
        hosts = _sent(request, b"host")
        if not is_loopback(request.peer) or all(map(names_this_machine, hosts)):
            return False
        offered = request.header(GATEWAY)
        if offered is None:
            return True
        if self.gateway_secret.matches(offered):
            return False
        if not self._warned_of_secret:
            self._warned_of_secret = True
            log.warn(
                "a request was refused, because it has a wrong gateway secret; if players "
                "get status 403, copy GATEWAY_SECRET from gateway.env to content.env"
            )
        return True

    def _refused(self, failure: Failure, request: HttpRequest) -> ContentReply:
        why = failure.value
        public = _public(request)
        if isinstance(why, RangeRefused):
            return refuse(why.status, why.code, {"Content-Range": f"bytes */{why.size}"})
        if isinstance(why, Refusal):
            retry = {} if why.retry_after_s is None else {"Retry-After": str(why.retry_after_s)}
            return refuse(why.status, why.code, {**public, **retry})
        if isinstance(why, Exception) and not isinstance(why, CancelledError):
            log.failure("{path} failed", failure, path=logged_path(request.path))
            return refuse(500, "internal_error", public)
        failure.raiseException()

    # -- the routes --------------------------------------------------------------

    async def manifest(self, request: HttpRequest) -> ContentReply:
        headers = {**PUBLIC, "ETag": self._manifest_etag, "Cache-Control": "no-cache"}
        answer = _without_content(request, self._manifest_etag, headers)
        return answer or Answer(200, self._manifest, headers)

    async def backgrounds(self, request: HttpRequest) -> ContentReply:
        body = self.branding.body(self.clock.seconds())
        return Answer(200, body, {**PUBLIC, "Cache-Control": "no-cache"})

    async def latest(self, request: HttpRequest) -> ContentReply:
        body = self.news.body(self.clock.seconds())
        return Answer(200, body, {**PUBLIC, "Cache-Control": "no-cache"})

    async def image(self, request: HttpRequest) -> ContentReply:
        image = self.branding.open(request.path[len(IMAGES) :].decode("latin-1"))
        if image is None:
            raise Missing(code="not_found")
        headers = {**PUBLIC, "ETag": image.etag, "Cache-Control": "max-age=300"}
        if (answer := _without_content(request, image.etag, headers)) is not None:
            image.file.close()
            return answer
        headers |= {"Content-Type": image.content_type, "Content-Length": str(image.size)}
        if request.method == "HEAD":
            image.file.close()
            return Answer(200, None, headers)
        span = Span(0, image.size, image.size)
        return FileAnswer(Answer(200, None, headers), image.file, span)

    async def launchers(self, request: HttpRequest) -> ContentReply:
        """List the launcher's files with their checksums."""
        body = self.launcher.body(on_windows="Windows NT" in (request.header(b"User-Agent") or ""))
        return Answer(200, body, {**PUBLIC, "Cache-Control": "no-cache", "Vary": "User-Agent"})

    async def launcher_file(self, request: HttpRequest) -> ContentReply:
        """Send one of the launcher's files."""
        launcher = self.launcher.named(request.path[len(LAUNCHERS) :])
        headers = {**PUBLIC, "ETag": launcher.etag, "Cache-Control": "no-cache"}
        if (answer := _without_content(request, launcher.etag, headers)) is not None:
            return answer
        headers |= {
            "Content-Type": "application/octet-stream",
            "Content-Disposition": "attachment",
            "Content-Length": str(launcher.size),
        }
        if request.method == "HEAD":
            return Answer(200, None, headers)
        span = Span(0, launcher.size, launcher.size)
        return FileAnswer(Answer(200, None, headers), launcher.open(), span)

    async def game_file(self, request: HttpRequest) -> ContentReply:
        entry = self._named(request.path[len(FILES) :])
        player = await self.keys.player_of(request.header(ACCOUNT_KEY))
        file = self.game_files.open(entry)
        try:
            reply = self._file_answer(request, entry, player, file)
        except BaseException:
            file.close()
            raise
        if isinstance(reply, Answer):
            file.close()
        return reply

    def _named(self, raw: bytes) -> ManifestEntry:
        try:
            entry = self.game_files.manifest.files.get(paths.decode(raw))
        except paths.UnsafePath:
            raise Malformed(code="bad_path") from None
        if entry is None:
            raise Missing(code="not_found")
        return entry

    def _file_answer(
        self, request: HttpRequest, entry: ManifestEntry, player: KeyOwner, file: BinaryIO
    ) -> ContentReply:
        headers = {**NOSNIFF, "ETag": entry.etag, "Cache-Control": "private"}
        if (answer := _without_content(request, entry.etag, headers)) is not None:
            return answer
        requested, condition = _sent(request, b"range"), _sent(request, b"if-range")
        try:
            span, partial = ranges.wanted(requested, condition, entry.etag, entry.size)
        except ranges.Unsatisfiable:
            raise RangeRefused(entry.size) from None
        headers["Content-Type"] = "application/octet-stream"
        headers["Content-Length"] = str(span.length)
        headers["Accept-Ranges"] = "bytes"
        if partial:
            headers["Content-Range"] = span.content_range
        head = Answer(206 if partial else 200, None, headers)
        if request.method == "HEAD":
            return head
        slot = self.slots.take(player.account)
        address = self._address(request)
        ended = _Ending(self.totals, slot, player, entry.path, span, head.status, address)

        def spoiled() -> None:
            self.game_files.spoiled(entry.path, "the file shrank during a download")

        return FileAnswer(head, file, span, ended, spoiled)

    def _address(self, request: HttpRequest) -> str:
        """Return the player's address for the log, as reported by the gateway if there is one.

        X-Forwarded-For counts only with the gateway's secret, because any program can send it.
        """
        return request.forwarded(self.gateway_secret, GATEWAY) or request.peer


@define
class _Ending:
    """The callback for the end of a download: it releases the slot and logs the download."""

    totals: Totals
    slot: DownloadSlot
    player: KeyOwner
    path: str
    span: Span
    status: int
    address: str
    started: float = field(factory=elapsed, init=False)

    def __call__(self, sent: int, complete: bool) -> None:
        self.slot.release()
        self.totals.bytes += sent
        self.totals.complete += complete
        self.totals.cut += not complete
        part = f"{self.span.start}-{self.span.end - 1}" if self.status == 206 else None
        log.info(
            "download",
            account=self.player.account,
            user=self.player.name,
            path=self.path,
            range=part,
            status=self.status,
            bytes=sent,
            complete=complete,
            ms=round((elapsed() - self.started) * 1000),
            ip=self.address,
        )


_FIXED: dict[bytes, Handler] = {
    b"/content/v1/manifest": ContentHandler.manifest,
    b"/content/v1/branding": ContentHandler.backgrounds,
    b"/content/v1/news": ContentHandler.latest,
    LAUNCHER.encode(): ContentHandler.launchers,
}


def _find(request: HttpRequest) -> tuple[Handler | None, Answer]:
    """Return the handler, or None and a refusal if the route or the method is wrong."""
    handler = _FIXED.get(request.path)
    if handler is None and request.path.startswith(FILES):
        handler = ContentHandler.game_file
    elif handler is None and request.path.startswith(IMAGES):
        handler = ContentHandler.image
    elif handler is None and request.path.startswith(LAUNCHERS):
        handler = ContentHandler.launcher_file
    if handler is None:
        return None, refuse(404, "not_found")
    if request.method not in ("GET", "HEAD"):
        return None, refuse(405, "method_not_allowed", {**_public(request), **ALLOW})
    return handler, Answer()


def _public(request: HttpRequest) -> dict[str, str]:
    """Return the CORS header, unless the request is for game files, which are not public."""
    return {} if request.path.startswith(FILES) else {"Access-Control-Allow-Origin": "*"}


def _without_content(request: HttpRequest, etag: str, headers: dict[str, str]) -> Answer | None:
    """Return a 412 or 304 answer if the request's conditions require it, or None."""
    conditions = _sent(request, b"if-match"), _sent(request, b"if-none-match")
    status = ranges.status_of(*conditions, etag)
    if status == 412:
        return refuse(412, "precondition_failed", _public(request))
    return Answer(304, None, headers) if status == 304 else None


def _sent(request: HttpRequest, name: bytes) -> list[bytes]:
    values: list[bytes] = request.headers.getRawHeaders(name) or []
    return values
